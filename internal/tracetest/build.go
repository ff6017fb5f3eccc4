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

// builds are programs, each built once, in a folder that is there while tests run.
type builds struct {
	mu     sync.Mutex
	folder string
	done   map[string]build
}

type build struct {
	program string
	err     error
}

var programs builds

// BuildMain is the TestMain of a package whose tests use [Build]: it runs them, and removes what was built. It does not
// return.
func BuildMain(m *testing.M) { os.Exit(programs.during(m.Run)) }

// Build builds the main package in a folder as users do, with the go command and the environment of the test, and
// returns the program's path. A test binary's own code would do in most cases, but has no symbols for a tracer to show.
// It is built once, and belongs to all tests of the binary, whose TestMain must be [BuildMain].
func Build(t testing.TB, folder string) (program string) {
	t.Helper()
	program, err := programs.build(folder)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// during returns what run returns. Programs can be built until then.
func (b *builds) during(run func() int) int {
	folder, err := os.MkdirTemp("", "stapsdt-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	b.folder, b.done = folder, map[string]build{}
	return run()
}

func (b *builds) build(folder string) (program string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		return "", fmt.Errorf("build %s: TestMain is not BuildMain", folder)
	}
	done, ok := b.done[folder]
	if !ok {
		done.program = filepath.Join(b.folder, strconv.Itoa(len(b.done)))
		cmd := exec.Command("go", "build", "-o", done.program, ".")
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			done.err = fmt.Errorf("go build in %s: %w\n%s", folder, err, out)
		}
		b.done[folder] = done
	}
	return done.program, done.err
}
