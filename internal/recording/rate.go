package recording

import (
	"cmp"
	"slices"
	"time"
)

// rate is the number of nanoseconds that a tick of a recording's Counter takes.
type rate struct{ perTick float64 }

// minBase is the shortest time between two readings from which a rate is learned, if there are
// others.
const minBase = int64(time.Millisecond)

// learn computes the rate from readings. Each pair of successive readings gives a rate. learn takes
// the median, weighted by the time between the readings, because a pair is wrong if the machine was
// suspended in between and one of the clocks stood still.
func (r *rate) learn(readings []Reading) {
	slices.SortFunc(
		readings, func(a, b Reading) int { return cmp.Compare(a.Monotonic, b.Monotonic) },
	)
	type step struct {
		perTick float64
		ns      int64
	}
	var steps []step
	var total int64
	from := readings[0]
	for i, to := range readings[1:] {
		ns := to.Monotonic - from.Monotonic
		if to.Ticks <= from.Ticks {
			from = to // the counter began again
			continue
		}
		if ns < minBase && i < len(readings)-2 || ns <= 0 {
			continue
		}
		steps = append(steps, step{float64(ns) / float64(to.Ticks-from.Ticks), ns})
		total += ns
		from = to
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.perTick, b.perTick) })
	half := total / 2
	for _, s := range steps {
		r.perTick = s.perTick
		if half -= s.ns; half < 0 {
			return
		}
	}
}

// between returns the rate between two successive readings of a shard. It returns the learned rate
// if there is no second one, and if one of the clocks stood still or began again in between.
func (r *rate) between(from, to Reading) float64 {
	perTick := float64(to.Monotonic-from.Monotonic) / float64(to.Ticks-from.Ticks)
	if to.Ticks <= from.Ticks || perTick < r.perTick/2 || perTick > r.perTick*2 {
		return r.perTick
	}
	return perTick
}
