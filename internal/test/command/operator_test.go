//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// operated is what delivers the events of the operator.
type operated struct {
	name string
	// run lets the operator act, and returns the output of the command for what it did.
	run func(t *testing.T, act func(*tracetest.Process), args ...string) result
}

// startOperator starts the program whose operations are looked at.
func startOperator(t testing.TB, args ...string) *tracetest.Process {
	t.Helper()
	return startGoSubject(t, append([]string{"operator"}, args...)...)
}

// watch starts the command, lets the operator act while it is watched, and interrupts the command.
func watch(t *testing.T, p *tracetest.Process, act func(*tracetest.Process), args ...string) result {
	t.Helper()
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), append(args, "-v", "-p", pid(p))...)), t}
	tr.waitForOperator(p, args)
	act(p)
	tr.interrupt()
	out := ""
	for _, line := range tr.Lines() {
		out += line + "\n"
	}
	return result{stdout: out}
}

// waitForOperator waits until the command, which was started with -v and these arguments, watches an operator.
func (tr *tracer) waitForOperator(p *tracetest.Process, args []string) {
	tr.t.Helper()
	if !slices.Contains(args, "kernel") {
		tr.waitForWatches(p, 1)
		return
	}
	allTraced(tr.t, p, !slices.Contains(args, "operator:request") && !slices.Contains(args, "operator:query"))
}

// allTraced waits until the kernel's tracer is attached to both probes of one of the operations, or of both.
func allTraced(t testing.TB, p *tracetest.Process, both bool) {
	t.Helper()
	traced := regexp.MustCompile(`(?m)^ +operator:(?:request|query)__.*traced now$`)
	want := 2
	if both {
		want = 4
	}
	require.Eventually(t, func() bool {
		out, err := exec.Command(stapsdt(t), "list", "-p", pid(p)).Output()
		return err == nil && len(traced.FindAll(out, -1)) == want
	}, testenv.Patience, 5*time.Millisecond)
}

// sources are those of which every look at operations shows the same.
func sources() []operated {
	return []operated{
		{"kernel", func(t *testing.T, act func(*tracetest.Process), args ...string) result {
			testenv.NeedsRoot(t)
			return watch(t, startOperator(t), act, append(args, "--via", "kernel")...)
		}},
		{"socket", func(t *testing.T, act func(*tracetest.Process), args ...string) result {
			p := startOperator(t)
			tell(p, "listen")
			return watch(t, p, act, append(args, "--via", "socket")...)
		}},
		{"recording", func(t *testing.T, act func(*tracetest.Process), args ...string) result {
			file := filepath.Join(t.TempDir(), "operator.rec")
			act(startOperator(t, file))
			return runCommand(t, append(args, "--from", file)...)
		}},
	}
}

// eachSource runs a test for each source.
func eachSource(t *testing.T, f func(t *testing.T, source operated)) {
	t.Parallel()
	for _, source := range sources() {
		t.Run(source.name, func(t *testing.T) { f(t, source) })
	}
}

// TestReload: commands that show operations go on when the probes are unloaded and loaded again.
func TestReload(t *testing.T) {
	eachSource(t, func(t *testing.T, source operated) {
		act := func(p *tracetest.Process) {
			tell(p, "requests 4")
			tell(p, "reload")
			if source.name == "kernel" {
				allTraced(t, p, true)
			}
			tell(p, "requests 3")
		}
		require.Len(t, lines[grown](t, source.run(t, act, "tree", "-o", "json").stdout), 7)
		counts := map[string]int{}
		for _, o := range lastScreen(t, source.run(t, act, "top", "-o", "json")).Operations {
			counts[o.Operation] += o.Count
		}
		require.Equal(t, map[string]int{"operator:request": 7, "operator:query": 14}, counts)
		clear(counts)
		for _, e := range drawnBy(t, source, act, "operator:*") {
			if e.Ph == "X" {
				counts[e.Name]++
			}
		}
		require.Equal(t, map[string]int{"operator:request": 7, "operator:query": 14}, counts)
	})
}

// TestProcessName: -p takes the name of a process, as its file has it or the kernel.
func TestProcessName(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	name := "the-operator-of-" + strconv.Itoa(os.Getpid())
	program := filepath.Join(t.TempDir(), name)
	overwrite(t, tracetest.Build(t, "subject"), program)
	p := startIn(t, t.TempDir(), exec.Command(program, "operator"))
	comm := name[:15] // which the kernel has
	for _, called := range []string{name, comm} {
		require.Contains(t, runCommand(t, "list", "-p", called).stdout, "operator:request__start")
		require.Equal(t, 3, runCommand(t, "trace", "-p", called+","+called+"x", "a:b").status, "the second is not there")
	}
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), "tree", "-p", name, "-n", "1")), t}
	allTraced(t, p, true)
	tell(p, "requests 1")
	require.NoError(t, tr.Wait(testenv.Patience))
}
