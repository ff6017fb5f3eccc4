//go:build linux && (amd64 || arm64)

package law

import (
	"maps"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// cost is what an operation in flight may take while it is watched, in addition to what it
// takes when it is not: bytes of the heap, and of its goroutine's stack.
type cost struct{ heap, stack int }

// kinds are the kinds of operations, the most that each may cost, and how many events of each
// probe it has. The costs are what was measured and about a quarter more, but 16 bytes, which
// is the least that the allocator has, where it was nothing. A stack costs something where
// the frames of the instrumentation make it the next power of two; of a handshake, whose
// stack shrinks and grows with every collection, this concerns some.
var kinds = map[string]struct {
	cost
	events map[string]int
}{
	"request":     {cost{1150, 4096}, map[string]int{"request__start": 1, "request__context": 1, "request__end": 1}},
	"fetch":       {cost{1450, 0}, map[string]int{"fetch__start": 1, "fetch__end": 1}},
	"query":       {cost{220, 0}, map[string]int{"connect__start": 1, "connect__end": 1, "query__start": 1, "query__end": 1}},
	"transaction": {cost{120, 0}, map[string]int{"transaction__start": 1, "transaction__end": 1, "query__start": 2, "query__end": 2}},
	"raw":         {cost{16, 0}, map[string]int{"connect__start": 1, "connect__end": 1}},
	"rpc":         {cost{980, 0}, map[string]int{"rpc__start": 1, "rpc__context": 1, "rpc__end": 1, "call__start": 1, "call__end": 1}},
	"dial":        {cost{96, 4096}, map[string]int{"dial__start": 1, "dial__end": 1}},
	"accept":      {cost{16, 0}, map[string]int{"accept": 1}},
	"handshake":   {cost{96, 512}, map[string]int{"handshake__start": 1, "handshake__end": 1}},
	"log":         {cost{16, 4096}, map[string]int{"log__record": 2}},
	"span":        {cost{96, 0}, map[string]int{"work__start": 1, "work__end": 1, "work__context": 1}},
	"otel":        {cost{810, 0}, map[string]int{"span__start": 1, "span__end": 1, "span__context": 1}},
}

// maxThreads is how many threads more a program may have while it is watched. It is not 0
// because the runtime starts one whenever a goroutine is to run and all threads are in system
// calls, which a busy machine makes likely.
const maxThreads = 4

// slack is how many bytes the heap may differ from one run to another, and stackSlack the
// stacks while operations are in flight: the runtime keeps descriptions of goroutines and
// threads, and each thread has stacks of its own. Of 20,000 operations, no more than 13 and 26
// bytes each can hide in them.
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
// The least that 20,000 stacks take is 39 MiB.
const idleStacks = processors * 63 * 32 << 10

// inFlight is how many operations are in flight at once.
func inFlight() int {
	if testing.Short() {
		return 1000
	}
	return 20_000
}

// TestInFlight: whichever way a program with many operations in flight is watched, no event is missing, and an operation
// takes no thread, goroutine or descriptor, and no more memory than kinds says. When the watcher has gone and the operations
// have ended, nothing remains.
func TestInFlight(t *testing.T) {
	t.Parallel()
	n := inFlight()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, holder(t, static, name))
			var bare cycle
			bare.before = p.measures()
			bare.held, bare.after = p.flight(n)
			p.ends()
			t.Logf("untraced: %s", bare.perOperation(n))
			for _, w := range ways {
				t.Run(w.name, func(t *testing.T) {
					if !w.all {
						testenv.Long(t, "TestPidsMax watches all kinds in each way")
					}
					if w.slow {
						testenv.Long(t, "bpftrace takes seconds")
					}
					p := start(t, holder(t, static, name))
					with := p.watched(w, n, k.events)
					t.Logf("%s", with.perOperation(n))
					w.requireNoneEach(t, bare, with, n)
					t.Run("memory", func(t *testing.T) {
						testenv.Measures(t, "memory, threads and goroutines")
						w.measure(t, bare, with, n, k.cost)
					})
				})
			}
		})
	}
}
