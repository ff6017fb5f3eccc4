package recorder

import (
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// clockReader reads a recording's clock.
type clockReader struct {
	useCounter bool
	second     uint64 // a second in ticks, roughly
}

// counterIsTrusted reports whether the counter can be the clock: the processor must declare it
// invariant, and the kernel, which compares and watches the processors, must use it. A test binary
// uses the monotonic clock, because only this clock has the time of testing/synctest.
func counterIsTrusted() bool {
	if !invariantCounter() || inTest() {
		return false
	}
	return string(proc.Read("/sys/devices/system/clocksource/clocksource0/current_clocksource", 64)) == "tsc\n"
}

// inTest reports whether go test has built the program.
func inTest() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && strings.HasSuffix(info.Path, ".test") || strings.HasSuffix(os.Args[0], ".test")
}

// newClock returns a clock.
func newClock(useCounter bool) clockReader {
	c := clockReader{useCounter: useCounter, second: uint64(time.Second)}
	if useCounter {
		// A rough rate suffices: it decides only how often readings are written.
		start, ticks := clock.Now(), counter()
		for clock.Now()-start < 50*time.Microsecond {
		}
		c.second = (counter() - ticks) * uint64(time.Second) / uint64(clock.Now()-start)
	}
	return c
}

// orders reports whether the times of events tell their order: readings of the clock that follow
// one another differ. Otherwise, as in a bubble of testing/synctest, a goroutine stays with one
// shard on any thread, which keeps the order of its events unless another fire is in the shard.
func (c clockReader) orders() bool {
	var last time.Duration
	for n := 0; n < 10 && !c.useCounter; n++ {
		now, real := clock.Read()
		if !real || now == last {
			return false
		}
		last = now
	}
	return true
}

func (c clockReader) kind() recording.ClockKind {
	if c.useCounter {
		return recording.Counter
	}
	return recording.Monotonic
}

// now returns the time by the recording's clock.
func (c clockReader) now() uint64 {
	if c.useCounter {
		return counter()
	}
	return uint64(clock.Now())
}

// reading reads the clocks a few times, and returns the reading that took the shortest time by
// the recording's clock, because the thread may have been interrupted during the others, also
// before it has read the time of day.
func (c clockReader) reading() (best recording.Reading) {
	shortest := ^uint64(0)
	for range 3 {
		before := c.now()
		monotonic := clock.Now()
		after := c.now()
		realtime := time.Now().UnixNano()
		if took := c.now() - before; took < shortest {
			shortest = took
			best = recording.Reading{
				Ticks: before + (after-before)/2, Monotonic: int64(monotonic), Realtime: realtime,
			}
		}
	}
	if !c.useCounter {
		best.Ticks = uint64(best.Monotonic)
	}
	return best
}
