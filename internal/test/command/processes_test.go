//go:build linux && (amd64 || arm64)

package command_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

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
		trees[tree.PID][len(tree.Operations)]++
		require.Zero(t, tree.Parent)
		for _, o := range tree.Operations {
			require.True(t, o.Ended)
		}
	}
	require.Equal(t, map[int]map[int]int{tw.first.PID(): {3: 5}, tw.second.PID(): {3: 5, 1: 2}}, trees)
}
