//go:build linux

package live

import (
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

// A program allocates the memory for its events, its ring, which counts against the limit of the
// program's control group. This process maps it.

// ringLimit is the limit that SetRingLimit has set, or 0.
var ringLimit uint64

// SetRingLimit limits the memory that all programs together allocate for the events of this command
// in a pod. It must be called before the first program is watched.
func SetRingLimit(bytes int64) { ringLimit = uint64(bytes) }

// rings is the size of the memory for events that programs have allocated for this process.
var rings atomic.Int64

// Rings returns the size of the memory for events that programs have allocated for this process.
// Any goroutine may call it.
func Rings() int64 { return rings.Load() }

// request returns the request for each program that is to be watched.
func (f *Feed) request() wire.Watch {
	var taken uint64
	left := 0 // programs without memory
	for _, p := range f.programs {
		if p.size == 0 {
			left++
		}
		taken += uint64(p.size)
	}
	bytes := ringBytes(len(f.programs))
	if ringLimit > 0 {
		bytes = min(bytes, ringShare(ringLimit, taken, left))
	}
	return wire.Watch{Bytes: bytes, Patterns: f.patterns}
}

// patternsFor returns the patterns for a program that has announced probes. They include the starts
// of operations if a Pairing needs these, or if it may need them, because the program has announced
// no selected probe. Any goroutine may call it.
func (f *Feed) patternsFor(all []*recording.Probe) []wire.Pattern {
	if f.paired == nil {
		return f.patterns
	}
	known := false
	for _, p := range all {
		if f.Selects(p.Provider, p.Name) {
			if known = true; f.Complete(p, all) != p {
				return f.paired
			}
		}
	}
	if known {
		return f.patterns
	}
	return f.paired
}

// ringBytes returns the size of the memory for events of each of n programs. The largest holds the
// events that two threads fire in a tenth of a second at full speed.
func ringBytes(n int) uint64 {
	const all, least, most = 256 << 20, 512 << 10, 32 << 20
	return min(max(all/uint64(max(n, 1)), least), most)
}

// ringShare returns the size of the memory of each of n programs if others have taken a part of the
// limit. It leaves a part of the same size for programs that come later.
func ringShare(limit, taken uint64, n int) uint64 {
	return max((limit-min(taken, limit))/uint64(n+1), recording.MinBytes)
}
