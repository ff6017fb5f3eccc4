//go:build linux && (amd64 || arm64)

package soak

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// target is what firers fire at in a lane. A change of it has the next epoch.
type target struct {
	epoch  uint64
	window uint64
	fire   fire // or nil
}

// lane is what the goroutine of a cycle tells firers, and what they answer.
type lane struct {
	target atomic.Pointer[target]
	firers []*answer
}

// answer is what a firer has to say of a lane.
type answer struct {
	// fired is how often it has fired at the present target.
	fired atomic.Uint64
	// epoch is the last one it has seen. Before it stores that, it has left in done what it did in the one before.
	epoch atomic.Uint64
	done  bpf.Tally

	// now is what it does in the present one. It is the firer's own.
	now bpf.Tally
	_   [64]byte
}

func newLane(firers int) *lane {
	l := new(lane)
	for range firers {
		l.firers = append(l.firers, new(answer))
	}
	l.target.Store(new(target))
	return l
}

// aim has firers fire at something else, and returns what they have fired since the last time. When it returns, none
// fires at the old target any more.
func (l *lane) aim(window int, f fire) (bpf.Tally, error) {
	next := &target{epoch: l.target.Load().epoch + 1, window: uint64(window), fire: f}
	l.target.Store(next)
	var sum bpf.Tally
	for _, a := range l.firers {
		if err := await(func() bool { return a.epoch.Load() == next.epoch }); err != nil {
			return sum, fmt.Errorf("a firer does not answer: %w", err)
		}
		sum.Add(a.done)
	}
	return sum, nil
}

// wait waits until a number of fires were made at the present target.
func (l *lane) wait(fires int) error {
	return await(func() bool {
		var sum uint64
		for _, a := range l.firers {
			sum += a.fired.Load()
		}
		return sum >= uint64(fires)
	})
}

// await waits for a condition that holds soon.
func await(condition func() bool) error {
	for start := time.Now(); !condition(); time.Sleep(20 * time.Microsecond) {
		if time.Since(start) > testenv.Patience {
			return fmt.Errorf("nothing happened for %v", testenv.Patience)
		}
	}
	return nil
}
