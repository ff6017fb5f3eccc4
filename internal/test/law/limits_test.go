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

	"github.com/stretchr/testify/assert"
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

// flight holds operations and ends them.
func (p *program) flight(n int) (held, after numbers) {
	p.t.Helper()
	p.does(fmt.Sprint("hold ", n), "held")
	held = p.measures()
	p.does("release", "released")
	return held, p.measures()
}

// crowded holds n operations of each kind in a program that has all kinds, which is watched in one way after the other. Whichever
// way that is, no event is missing, and an operation takes no thread, goroutine or descriptor. When the watcher has gone and the
// operations have ended, nothing remains.
func crowded(t *testing.T, p *program, n int) {
	t.Helper()
	bare, after := p.flight(n)
	operations := n * len(kinds)
	for _, w := range waysHere() {
		watcher := w.begin(t, p)
		held, _ := p.flight(n)
		seen := watcher.leave()
		p.does("disabled", "disabled")
		left := p.measures()
		t.Logf("%s: %+v, then %+v", w.name, held, left)
		require.NotEmpty(t, seen, w.name)
		for probe, times := range events() {
			if w.all {
				require.Equal(t, n*times, seen[probe], "%s: %s", w.name, probe)
			}
		}
		assert.Zero(t, (held.Threads-bare.Threads)/operations, "threads for each operation")
		assert.Zero(t, (held.Goroutines-bare.Goroutines)/operations, "goroutines for each operation")
		assert.LessOrEqual(t, held.Descriptors, bare.Descriptors, "descriptors")
		assert.LessOrEqual(t, left.Descriptors, after.Descriptors, "descriptors afterwards")
		t.Run("memory/"+w.name, func(t *testing.T) {
			testenv.Measures(t, "memory, threads and goroutines")
			figure := func(name string, more, bound int, unit string) {
				testenv.Figure(t, name, float64(more), float64(bound), unit)
			}
			figure("threads", held.Threads-bare.Threads, maxThreads, "")
			figure("goroutines", held.Goroutines-bare.Goroutines, 1, "")
			figure("heap", held.Heap-bare.Heap, n*heapOfKinds+slack, "B")
			figure("heap afterwards", left.Heap-after.Heap, slack, "B")
			figure("goroutines afterwards", left.Goroutines-after.Goroutines, 1, "")
			figure("stacks afterwards", left.Stacks-after.Stacks, idleStacks+stackSlack, "B")
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
	crowded(t, start(t, cmd), crowd())
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
	testenv.NeedsMachine(t, "control groups that can be made with a limit of processes", os.ErrNotExist, os.ErrNotExist)
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
	crowded(t, start(t, cmd), crowd())
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

// kinds are the kinds of operations, and how many events of each probe each has.
var kinds = map[string]map[string]int{
	"request":     {"request__start": 1, "request__context": 1, "request__end": 1},
	"fetch":       {"fetch__start": 1, "fetch__end": 1},
	"query":       {"connect__start": 1, "connect__end": 1, "query__start": 1, "query__end": 1},
	"transaction": {"connect__start": 1, "connect__end": 1, "transaction__start": 1, "transaction__end": 1, "query__start": 2, "query__end": 2},
	"rpc":         {"rpc__start": 1, "rpc__context": 1, "rpc__end": 1, "call__start": 1, "call__end": 1},
	"dial":        {"dial__start": 1, "dial__end": 1},
	"accept":      {"accept": 1},
	"handshake":   {"handshake__start": 1, "handshake__end": 1},
	"log":         {"log__record": 2},
	"span":        {"work__start": 1, "work__end": 1, "work__context": 1},
	"otel":        {"span__start": 1, "span__end": 1, "span__context": 1},
}

// events returns how many events of each probe there are for one operation of each kind.
func events() map[string]int {
	all := map[string]int{}
	for _, of := range kinds {
		for probe, n := range of {
			all[probe] += n
		}
	}
	return all
}

// heapOfKinds is how many bytes of the heap one operation of each kind may take together, in addition to what they take when nothing
// watches them: what was measured, and a quarter more. SECURITY.md has the packages' own.
const heapOfKinds = 4100

// maxThreads is how many threads more a program may have while it is watched. It is not 0
// because the runtime starts one whenever a goroutine is to run and all threads are in system
// calls, which a busy machine makes likely.
const maxThreads = 4

// slack is how many bytes the heap may differ from one run to another, and stackSlack the stacks: the runtime keeps descriptions
// of goroutines and threads, and each thread has stacks of its own.
const (
	slack      = 256 << 10
	stackSlack = 512 << 10
)

// processors is how many the programs use at most.
const processors = 4

// idleStacks is how many bytes of stacks the runtime may keep when goroutines have ended, whatever
// their number was. Each processor keeps up to 63 ended goroutines with their first stacks (gfput
// in runtime/proc.go), of which a collection frees none: it frees those of the list that the
// processors share (markrootFreeGStacks). Each of the stacks can be the last one in a span of 32 KiB
// (_StackCacheSize), which therefore remains. How many do depends on which goroutines end where.
const idleStacks = processors * 63 * 32 << 10

// TestInFlight: about 60,000 operations at once.
func TestInFlight(t *testing.T) {
	t.Parallel()
	testenv.Long(t, "TestPidsMax does the same with fewer operations")
	crowded(t, start(t, holder(t, static, all()...)), 5000)
}
