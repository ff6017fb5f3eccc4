//go:build linux && (amd64 || arm64)

package soak

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// fire fires a probe with a window, a value and what is derived of it.
type fire func(window, value, extra uint64)

var letters = strings.Repeat("abcdefghijklmnopqrstuvwxyz", 10)

// text fires a string of 8 to 263 bytes that begins with the extra word.
func text(p *stapsdt.Provider) fire {
	probe := stapsdt.NewProbe3[uint64, uint64, string](p, "event")
	return func(window, value, extra uint64) {
		var b [8 + 255]byte
		binary.NativeEndian.PutUint64(b[:], extra)
		copy(b[8:], letters)
		probe.Fire(window, value, string(b[:8+int(byte(value))]))
	}
}

// twelve fires as many arguments as there can be, of which the last is on the stack.
func twelve(p *stapsdt.Provider) fire {
	types := []stapsdt.ArgType{stapsdt.Uint64, stapsdt.Uint64, stapsdt.String}
	for len(types) < stapsdt.MaxArgs {
		types = append(types, stapsdt.Uint64)
	}
	probe, err := p.AddProbe("event", types...)
	if err != nil {
		panic(err)
	}
	return func(window, value, extra uint64) {
		if err := probe.Fire(window, value, "text", 3, 4, 5, 6, 7, 8, 9, 10, extra); err != nil {
			panic(err)
		}
	}
}

// lane is what firers fire at: the probe and the window of a cycle, and what was fired in it so far. Firers hold the lock for
// reading.
type lane struct {
	number              int
	mu                  sync.RWMutex
	window              int
	fire                fire // or nil
	count, value, extra atomic.Uint64
}

// fireAll fires at every lane in turn until it is stopped.
func (r *run) fireAll(random *rand.Rand, stop *atomic.Bool) {
	if r.locked {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	for !stop.Load() {
		for _, l := range r.lanes {
			deep(random.IntN(r.depth+1), func() { l.burst(random) })
		}
		if !r.locked {
			runtime.Gosched() // or others would wait until they are preempted
		}
	}
}

func (l *lane) burst(random *rand.Rand) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.fire == nil {
		return
	}
	for range firesAtOnce {
		value := random.Uint64()
		extra := value * 0x9e3779b97f4a7c15
		l.fire(uint64(l.window), value, extra)
		l.count.Add(1)
		l.value.Add(value)
		l.extra.Add(extra)
	}
}

// deep calls f at a depth of the stack, each level of which takes some 200 bytes.
//
//go:noinline
func deep(levels int, f func()) {
	var frame [128]byte
	frame[levels%len(frame)] = 1
	if levels == 0 {
		f()
	} else {
		deep(levels-1, f)
	}
	runtime.KeepAlive(&frame)
}

// aim has firers fire at something else, and returns what they have fired since the last time. When it returns, none
// fires at the old target any more.
func (l *lane) aim(window int, f fire) bpf.Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.window, l.fire = window, f
	return bpf.Tally{Count: l.count.Swap(0), Value: l.value.Swap(0), Extra: l.extra.Swap(0)}
}

// outside has firers fire in no window.
func (r *run) outside(l *lane, f fire) {
	fired := l.aim(0, f)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free.Add(fired)
}

// inWindow opens a window, lets firers fire its share, closes it, and compares. The tracer must be attached.
func (r *run) inWindow(l *lane, window int, f fire) error {
	free := l.aim(window, f)
	for start := time.Now(); l.count.Load() < uint64(r.perWindow); time.Sleep(20 * time.Microsecond) {
		if time.Since(start) > testenv.Patience {
			return errors.New("nothing fires")
		}
	}
	fired := l.aim(0, f)
	seen, err := r.counter.Tally(uint64(l.number), window)
	if err == nil && fired != seen {
		err = fmt.Errorf("lane %d, window %d: fired %+v, seen %+v", l.number, window, fired, seen)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free.Add(free)
	r.inside.Add(fired)
	r.cycled++
	return err
}

// work does the cycles of a lane.
func (r *run) work(l *lane, shared provider, deadline time.Time) error {
	once, end, err := r.cycle(r, l, shared)
	if err != nil {
		return err
	}
	share := (r.cycles + r.width - 1 - l.number) / r.width
	for window := 1; err == nil && window <= share && (window == 1 || time.Now().Before(deadline)); window++ {
		err = once(window)
	}
	// What was fired in no window is known only after the last fire.
	r.outside(l, nil)
	return errors.Join(err, end())
}

// cycle is what is done again and again in a lane. It returns a function that does it once, with a window in it, and
// one that ends it.
type cycle func(r *run, l *lane, shared provider) (once func(window int) error, end func() error, err error)

// stay keeps a provider loaded and the tracer attached: only windows pass.
func stay(r *run, l *lane, _ provider) (func(int) error, func() error, error) {
	p, err := r.newProvider(fmt.Sprint("soak", l.number), 1)
	if err != nil {
		return nil, nil, err
	}
	detach, err := r.attach(p, 0, l.number)
	return func(window int) error { return r.inWindow(l, window, p.fires[0]) },
		func() error { return errors.Join(detach(), p.Close()) }, err
}

// attach attaches for the time of the window. The lanes have probes of one file.
func attach(r *run, l *lane, shared provider) (func(int) error, func() error, error) {
	f := shared.fires[l.number]
	r.outside(l, f)
	once := func(window int) error {
		detach, err := r.attach(shared, l.number, l.number)
		if err != nil {
			return err
		}
		return errors.Join(r.inWindow(l, window, f), detach())
	}
	return once, func() error { return nil }, nil
}

// reload loads for the time of the window, while a tracer stays attached to the file.
func reload(r *run, l *lane, _ provider) (func(int) error, func() error, error) {
	p, err := r.newProvider(fmt.Sprint("soak", l.number), 1)
	if err != nil {
		return nil, nil, err
	}
	detach, err := r.attach(p, 0, l.number)
	once := func(window int) error {
		return errors.Join(p.Unload(), p.Load(), r.inWindow(l, window, p.fires[0]))
	}
	return once, func() error { return errors.Join(detach(), p.Close()) }, err
}

// churn has a new provider for each window, as a plugin has, and a tracer that attaches to it. The provider is unloaded and loaded
// under the tracer before the window. Firers hold on to its probe until the next one is there.
func churn(r *run, l *lane, _ provider) (func(int) error, func() error, error) {
	once := func(window int) error {
		p, err := r.newProvider(fmt.Sprintf("soak%d-%d", l.number, window), 1)
		if err != nil {
			return err
		}
		r.outside(l, p.fires[0])
		detach, err := r.attach(p, 0, l.number)
		if err != nil {
			return err
		}
		return errors.Join(p.Unload(), p.Load(), r.inWindow(l, window, p.fires[0]), detach(), p.Close())
	}
	return once, func() error { return nil }, nil
}
