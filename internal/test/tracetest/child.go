//go:build linux

package tracetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// childVariable names, in a child's environment, which of the functions given to Main it runs.
const childVariable = "STAPSDT_TEST_CHILD"

// Main is the TestMain of a package whose tests use [Child]. In the test process it runs the tests; in a child it runs
// the function of the child's name with its arguments instead. Its tests can use [Build] too. It does not return.
func Main(m *testing.M, children map[string]func(args []string)) {
	name, isChild := os.LookupEnv(childVariable)
	if !isChild {
		os.Exit(runBuilding(m))
	}
	run, ok := children[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no child is called %q\n", name)
		os.Exit(2)
	}
	// A child's own children are what they are, not this one again.
	os.Unsetenv(childVariable)
	run(os.Args[1:])
	os.Exit(0)
}

// ChildOption changes how a child is started.
type ChildOption func(*exec.Cmd)

// WithArgs gives the child arguments.
func WithArgs(args ...string) ChildOption {
	return func(c *exec.Cmd) { c.Args = append(c.Args, args...) }
}

// WithEnv adds "NAME=value" to the child's environment, which is otherwise that of the test.
func WithEnv(env ...string) ChildOption {
	return func(c *exec.Cmd) { c.Env = append(c.Env, env...) }
}

// Child starts the test binary again as the child of that name: see [Main]. A process of its own is what a test needs
// to be traced from its first instruction, to crash, or to set its environment.
func Child(t testing.TB, name string, opts ...ChildOption) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = slices.Concat(os.Environ(), []string{childVariable + "=" + name})
	for _, o := range opts {
		o(cmd)
	}
	p := Command(t, cmd)
	p.name = "child " + name
	return p
}

// EachLine calls hear for each line that the test says, until it hangs up. It is for the functions that are given to
// [Main].
func EachLine(hear func(line string)) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		hear(in.Text())
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
