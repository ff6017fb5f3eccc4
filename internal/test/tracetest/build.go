//go:build linux

package tracetest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"golang.org/x/sys/unix"
)

// programs are those that Build has built, in a directory that exists while tests run.
var programs struct {
	mu        sync.Mutex
	directory string
	paths     map[string]string // by what they are built from
}

// BuildMain is the TestMain of a package whose tests use [Build]: it runs them, and removes what was built. It does not
// return.
func BuildMain(m *testing.M) { os.Exit(runBuilding(m)) }

// ParallelMain lets n tests of a package run at a time, unless -parallel says how many. A TestMain
// calls it first.
func ParallelMain(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", strconv.Itoa(n))
	}
}

func runBuilding(m *testing.M) (status int) {
	directory, err := os.MkdirTemp("", "stapsdt-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	programs.directory, programs.paths = directory, map[string]string{}
	heedSignals()
	return m.Run()
}

// heedSignals lets the programs that tests start heed signals that this process ignores because it runs after nohup or in the background of a script.
func heedSignals() {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// Build builds the main package in a directory as users do, with the go command and the environment of the test, and
// returns the program's path. A test binary's own code would do in most cases, but has no symbols for a tracer to show.
// It is built once, and belongs to all tests of the binary, whose TestMain must be [BuildMain] or [Main]. "NAME=value" is
// added to the environment; with another one the program is another.
func Build(t testing.TB, directory string, env ...string) (program string) {
	t.Helper()
	return buildOnce(t, fmt.Sprintf("%q %q", env, directory), func(program string) error { return build(program, directory, env) })
}

// Stapsdt builds the command as it is distributed, without cgo, and returns its path. A guest has it in its $PATH.
func Stapsdt(t testing.TB) (program string) {
	t.Helper()
	for _, directory := range []string{"../../../cmd/stapsdt", "../../../../cmd/stapsdt"} { // the latter for a package of a package
		if _, err := os.Stat(directory); err == nil {
			return Build(t, directory, "CGO_ENABLED=0")
		}
	}
	return testenv.NeedsTool(t, "stapsdt", "cmd/stapsdt")
}

// BuildFiles builds the program of a module from its files, once for all tests of the binary, and returns a copy in a directory of the
// test, which may change it. The environment and the flags are those of Build and of the go command.
func BuildFiles(t testing.TB, files map[string]string, env []string, flags ...string) (program string) {
	t.Helper()
	built := buildOnce(t, fmt.Sprintf("%q %q %q", files, env, flags), func(path string) error {
		source, err := os.MkdirTemp(programs.directory, "source-")
		if err != nil {
			return err
		}
		for name, content := range files {
			file := filepath.Join(source, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
				return err
			}
		}
		cmd := exec.Command("go", slices.Concat([]string{"build", "-o", path}, flags, []string{"."})...)
		cmd.Dir = source
		cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS="), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	program = filepath.Join(t.TempDir(), "program")
	if err := copyProgram(built, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// BuildShell runs a script of bash, once for all tests of the binary, in a directory that exists as long as the programs of [Build],
// and returns the directory.
func BuildShell(t testing.TB, script string) (directory string) {
	t.Helper()
	return buildOnce(t, script, func(directory string) error {
		cmd := exec.Command("bash", "-euc", script)
		cmd.Dir = directory
		if err := os.Mkdir(directory, 0o755); err != nil {
			return err
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

func buildOnce(t testing.TB, key string, build func(path string) error) (path string) {
	t.Helper()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if programs.paths[key] != "" {
		return programs.paths[key]
	}
	if programs.paths == nil {
		t.Fatalf("build %s: TestMain is neither BuildMain nor Main", key)
	}
	path = filepath.Join(programs.directory, strconv.Itoa(len(programs.paths)))
	if err := build(path); err != nil {
		_ = os.RemoveAll(path) // which the next one has again
		t.Fatalf("build %s: %v", key, err)
	}
	programs.paths[key] = path
	return path
}

// build builds in the user's cache, where the go command links nothing that another test binary has linked already, and copies the
// program, so that those who trace the copy see the processes of this test binary only.
func build(program, directory string, env []string) error {
	source, err := filepath.Abs(directory)
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	cache = filepath.Join(cache, "stapsdt", "programs")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	// Of two programs of the same name, each replaces the other, under the lock.
	words := append([]string{filepath.Base(filepath.Dir(source)), filepath.Base(source), "CGO_ENABLED=" + os.Getenv("CGO_ENABLED")}, env...)
	shared := filepath.Join(cache, strings.ReplaceAll(strings.Join(words, "-"), "/", "_"))
	lock, err := os.Create(shared + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", shared, ".")
	cmd.Dir, cmd.Env = directory, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return copyProgram(shared, program)
}

func copyProgram(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	syscall.ForkLock.RLock() // a process that is started meanwhile would have the program open for writing, until its own exec
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(to, content, 0o755)
}
