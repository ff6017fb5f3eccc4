//go:build linux

package tracetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

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

func runBuilding(m *testing.M) (status int) {
	directory, err := os.MkdirTemp("", "stapsdt-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	programs.directory, programs.paths = directory, map[string]string{}
	return m.Run()
}

// Build builds the main package in a directory as users do, with the go command and the environment of the test, and
// returns the program's path. A test binary's own code would do in most cases, but has no symbols for a tracer to show.
// It is built once, and belongs to all tests of the binary, whose TestMain must be [BuildMain] or [Main]. "NAME=value" is
// added to the environment; with another one the program is another.
func Build(t testing.TB, directory string, env ...string) (program string) {
	t.Helper()
	return buildOnce(t, fmt.Sprintf("%q %q", env, directory), func(program string) error { return build(program, directory, env) })
}

// Stapsdt builds the command as it is distributed, without cgo, and returns its path.
func Stapsdt(t testing.TB) (program string) {
	t.Helper()
	directory := "../../../cmd/stapsdt"
	if _, err := os.Stat(directory); err != nil {
		directory = "../" + directory // for a package of a package
	}
	return Build(t, directory, "CGO_ENABLED=0")
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
	content, err := os.ReadFile(shared)
	if err != nil {
		return err
	}
	syscall.ForkLock.RLock() // a process that is started meanwhile would have the program open for writing, until its own exec
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(program, content, 0o755)
}
