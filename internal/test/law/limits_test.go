//go:build linux && (amd64 || arm64)

package law

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// maxTasks is a limit of threads that no program reaches which does not need one for each
// operation.
const maxTasks = 64

// all returns the names of all kinds.
func all() []string { return slices.Sorted(maps.Keys(kinds)) }

// crowd is how many operations of each kind are in flight in a program that has all kinds.
func crowd() int {
	if testing.Short() {
		return 200
	}
	return 2000
}

// crowded holds many operations in a program that has all kinds, which is watched in one way
// after the other.
func crowded(t *testing.T, p *program) {
	t.Helper()
	bare, after := p.flight(crowd())
	for _, w := range waysHere() {
		watcher := w.begin(t, p)
		held, _ := p.flight(crowd())
		require.NotEmpty(t, watcher.leave(), w.name)
		p.does("disabled", "disabled")
		t.Logf("%s: %d threads, %d goroutines, %d B of heap", w.name, held.Threads, held.Goroutines, held.Heap)
		left := p.measures()
		t.Run("memory/"+w.name, func(t *testing.T) {
			testenv.Measures(t, "memory, threads and goroutines")
			testenv.Figure(t, "threads", float64(held.Threads-bare.Threads), maxThreads, "")
			testenv.Figure(t, "heap afterwards", float64(left.Heap-after.Heap), slack, "B")
			testenv.Figure(t, "goroutines afterwards", float64(left.Goroutines-after.Goroutines), float64(w.goroutines+1), "")
		})
	}
	p.ends()
}

// waysHere are the ways that can be had here: without root, those of the program alone.
func waysHere() []way {
	here := slices.Clone(ways)
	if os.Geteuid() != 0 {
		here = slices.DeleteFunc(here, func(w way) bool { return w.name == "command" || w.name == "bpftrace" })
	}
	if testing.Short() {
		here = slices.DeleteFunc(here, func(w way) bool { return w.slow })
	}
	return here
}

// TestPidsMax: a program in a container whose pids.max is small goes on while it is watched.
func TestPidsMax(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	group := pidsGroup(t)
	cmd := holder(t, static, all()...)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group}, cmd.Args...)
	crowded(t, start(t, cmd))
	events, err := os.ReadFile(filepath.Join(group, "pids.events"))
	require.NoError(t, err)
	require.Equal(t, "max 0", strings.TrimSpace(string(events)), "the limit was reached")
}

// pidsGroup makes a control group of at most maxTasks tasks, of the version that this machine
// has.
func pidsGroup(t *testing.T) (path string) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if fields[2] != "cgroup2" && (fields[2] != "cgroup" || !slices.Contains(strings.Split(fields[3], ","), "pids")) {
			continue
		}
		group := filepath.Join(fields[1], fmt.Sprint("stapsdt-law-", os.Getpid()))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(group) })
		if os.WriteFile(filepath.Join(group, "pids.max"), fmt.Append(nil, maxTasks), 0) == nil {
			return group
		}
	}
	testenv.Needs(t, "the controller pids", fmt.Errorf("no control group has pids.max"))
	return ""
}

// TestMemoryLimit: with a GOMEMLIMIT that is less than the operations need, the program goes
// on while it is watched, and its memory is released afterwards.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	testenv.Measures(t, "memory")
	cmd := holder(t, static, all()...)
	// The operations take some 150 MB, half of it stacks. With a limit far below that, the program would do little but
	// collect garbage, watched or not.
	cmd.Env = append(cmd.Env, "GOMEMLIMIT=100MiB")
	crowded(t, start(t, cmd))
}

// TestRace: the race detector finds nothing while operations are in flight, start and end,
// and watchers come and go. It allows 8,128 goroutines.
func TestRace(t *testing.T) {
	t.Parallel()
	testenv.Long(t, "building with the race detector takes a minute the first time")
	testenv.NeedsTool(t, "gcc", "gcc")
	p := start(t, holder(t, raced, all()...))
	p.does("hold 250", "held")
	p.does("work", "working")
	for _, w := range waysHere() {
		if w.slow {
			continue // the program cannot tell it from the command
		}
		require.NotEmpty(t, working(p, w.begin(t, p)).leave())
		p.does("disabled", "disabled")
	}
	p.does("release", "released")
	worked(t, p, all())
	p.ends() // with a status of 66 if it found something
}
