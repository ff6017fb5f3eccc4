//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	both := !slices.Contains(args, "operator:request") && !slices.Contains(args, "operator:query")
	tr.until(func() bool { return areAllTraced(p, both) })
}

// operationProbes matches the probes of the operator.
var operationProbes = regexp.MustCompile(`^operator:(?:request|query)__`)

// areAllTraced reports whether the kernel's tracer is attached to both probes of one of the operations, or of both.
func areAllTraced(p *tracetest.Process, both bool) bool {
	traced, want := 0, 2
	if both {
		want = 4
	}
	for name, sites := range tracetest.TracedProbes(pid(p)) {
		if operationProbes.MatchString(name) && sites.Traced == sites.Sites {
			traced++
		}
	}
	return traced == want
}

// allTraced waits for areAllTraced.
func allTraced(t testing.TB, p *tracetest.Process, both bool) {
	t.Helper()
	require.Eventually(t, func() bool { return areAllTraced(p, both) }, testenv.Patience, 5*time.Millisecond)
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

// twins are two operators: their providers have the same name, and their operations the same ids.
type twins struct {
	first, second *tracetest.Process
	files         []string // their recordings, if they make some
}

func startTwins(t *testing.T, records bool) *twins {
	t.Helper()
	tw := &twins{}
	var args [2][]string
	if records {
		tw.files = []string{filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")}
		args = [2][]string{tw.files[:1], tw.files[1:]}
	}
	tw.first, tw.second = startOperator(t, args[0]...), startOperator(t, args[1]...)
	return tw
}

// both lets both do something at the same time.
func (tw *twins) both(line string) {
	for _, p := range []*tracetest.Process{tw.first, tw.second} {
		p.Say(line)
	}
	for _, p := range []*tracetest.Process{tw.first, tw.second} {
		p.Expect("ok", testenv.Patience)
	}
}

// operate lets each id be open in both at the same time. The second one ends all of its operations, the first one leaves two
// open.
func (tw *twins) operate() {
	tw.both("open 2")
	tw.both("requests 5")
	tell(tw.second, "close")
}

// watched is the command's output of what the twins do while it watches.
func (tw *twins) watched(t *testing.T, args ...string) string {
	t.Helper()
	tr := &tracer{tracetest.Command(t, exec.Command(stapsdt(t), append(args, "-v")...)), t}
	for _, p := range []*tracetest.Process{tw.first, tw.second} {
		tr.waitForOperator(p, args)
	}
	tw.operate()
	tr.interrupt()
	return strings.Join(tr.Lines(), "\n")
}

// from is the command's output for recordings.
func from(t *testing.T, files []string, args ...string) string {
	t.Helper()
	for _, file := range files {
		args = append(args, "--from", file)
	}
	r := runCommand(t, args...)
	require.Zero(t, r.status)
	return r.stdout
}

// ofTwins are what delivers the events of two processes.
var ofTwins = []struct {
	name string
	run  func(t *testing.T, args ...string) (*twins, string)
}{
	{"kernel", func(t *testing.T, args ...string) (*twins, string) {
		testenv.NeedsRoot(t)
		tw := startTwins(t, false)
		return tw, tw.watched(t, append(args, "-p", pid(tw.first)+","+pid(tw.second), "--via", "kernel")...)
	}},
	{"sockets", func(t *testing.T, args ...string) (*twins, string) {
		tw := startTwins(t, false)
		tw.both("listen")
		return tw, tw.watched(t, append(args, "-p", pid(tw.first)+","+pid(tw.second), "--via", "socket")...)
	}},
	{"recordings", func(t *testing.T, args ...string) (*twins, string) {
		tw := startTwins(t, true)
		tw.operate()
		return tw, from(t, tw.files, args...)
	}},
	{"one recording", func(t *testing.T, args ...string) (*twins, string) {
		testenv.NeedsRoot(t)
		tw := startTwins(t, false)
		file := filepath.Join(t.TempDir(), "both")
		tw.watched(t, "record", "operator:*", "-O", file, "-p", pid(tw.first)+","+pid(tw.second), "--via", "kernel")
		return tw, from(t, []string{file}, args...)
	}},
}

// TestTwins: operations of programs whose providers have the same name are not mixed, although their ids are equal. TestRecordingClocks has
// their timeline.
func TestTwins(t *testing.T) {
	for _, source := range ofTwins {
		t.Run(source.name, func(t *testing.T) {
			t.Parallel()
			tw, out := source.run(t, "top", "operator:*", "-o", "json")
			checkTop(t, tw, lines[screenful](t, out))
			tw, out = source.run(t, "tree", "operator:*", "-o", "json")
			checkTrees(t, tw, lines[grown](t, out))
		})
	}
}

func checkTop(t *testing.T, tw *twins, all []screenful) {
	t.Helper()
	s := all[len(all)-1]
	counts := map[string]int{}
	for _, l := range s.Operations {
		counts[l.Operation] = l.Count
	}
	require.Equal(t, map[string]int{"operator:request": 5 + 5 + 2, "operator:query": 10 + 10}, counts)
	require.Equal(t, 2, s.Open)
	for _, o := range s.Longest {
		require.Equal(t, tw.first.PID(), o.PID)
	}
	require.Zero(t, s.Lost+s.Before)
}

func checkTrees(t *testing.T, tw *twins, all []grown) {
	t.Helper()
	trees := map[int]map[int]int{tw.first.PID(): {}, tw.second.PID(): {}} // by process and size
	for _, tree := range all {
		require.Contains(t, trees, tree.PID)
		if !tree.Operations[0].Ended { // a recording shows those that are open too
			require.Equal(t, tw.first.PID(), tree.PID)
			continue
		}
		trees[tree.PID][len(tree.Operations)]++
		require.Zero(t, tree.Parent)
		for _, o := range tree.Operations {
			require.True(t, o.Ended)
		}
	}
	require.Equal(t, map[int]map[int]int{tw.first.PID(): {3: 5}, tw.second.PID(): {3: 5, 1: 2}}, trees)
}
