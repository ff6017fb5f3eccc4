//go:build linux

package tracetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// builds are programs, each built once, in a directory that is there while tests run.
type builds struct {
	mu        sync.Mutex
	directory string
	done      map[string]*build
}

type build struct {
	once    sync.Once
	program string
	err     error
}

var programs builds

// BuildMain is the TestMain of a package whose tests use [Build]: it runs them, and removes what was built. It does not
// return.
func BuildMain(m *testing.M) { os.Exit(programs.during(m.Run)) }

// Build builds the main package in a directory as users do, with the go command and the environment of the test, and
// returns the program's path. A test binary's own code would do in most cases, but has no symbols for a tracer to show.
// It is built once, and belongs to all tests of the binary, whose TestMain must be [BuildMain] or [Main]. "NAME=value" is
// added to the environment; with another one the program is another.
func Build(t testing.TB, directory string, env ...string) (program string) {
	t.Helper()
	program, err := programs.build(directory, env...)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// during returns what run returns. Programs can be built until then.
func (b *builds) during(run func() int) int {
	directory, err := os.MkdirTemp("", "stapsdt-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	b.directory, b.done = directory, map[string]*build{}
	return run()
}

func (b *builds) build(directory string, env ...string) (program string, err error) {
	b.mu.Lock()
	if b.done == nil {
		b.mu.Unlock()
		return "", fmt.Errorf("build %s: TestMain is neither BuildMain nor Main", directory)
	}
	key := fmt.Sprintf("%q %q", env, directory)
	done := b.done[key]
	if done == nil {
		done = &build{program: filepath.Join(b.directory, strconv.Itoa(len(b.done)))}
		b.done[key] = done
	}
	b.mu.Unlock()
	done.once.Do(func() {
		cmd := exec.Command("go", "build", "-o", done.program, ".")
		cmd.Dir, cmd.Env = directory, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			done.err = fmt.Errorf("go build in %s: %w\n%s", directory, err, out)
		}
	})
	return done.program, done.err
}
