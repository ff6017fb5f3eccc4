//go:build linux && (amd64 || arm64)

package soak

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
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

// work has the windows of a lane, until its share is done or the time is over.
func (r *run) work(l *lane, deadline time.Time) (err error) {
	share := (r.cycles + r.width - 1 - l.number) / r.width
	each := share // the windows of a provider
	if r.churn {
		each = 1
	}
	for first := 1; err == nil && first <= share && (first == 1 || time.Now().Before(deadline)); first += each {
		err = r.provide(l, first, first+each, deadline)
	}
	r.outside(l, nil)
	return err
}

// provide has windows with a provider, to which a tracer is attached. Without churn nothing is fired before and after that. With
// churn the provider is fired while the tracer attaches and detaches, and is unloaded and loaded under it, as a plugin is; firers
// hold on to its probe until the next one is there.
func (r *run) provide(l *lane, first, end int, deadline time.Time) error {
	p := stapsdt.NewProvider(fmt.Sprintf("soak%d-%d", l.number, first), stapsdt.WithDir(r.dir))
	f := r.probe(p)
	if err := p.Load(); err != nil {
		return err
	}
	if r.churn {
		r.outside(l, f)
	}
	link, err := r.attach(p, l.number)
	if err != nil {
		return err
	}
	if r.churn {
		err = errors.Join(p.Unload(), p.Load())
	}
	for window := first; err == nil && window < end && (window == first || time.Now().Before(deadline)); window++ {
		err = r.inWindow(l, window, f)
	}
	if !r.churn {
		r.outside(l, nil)
	}
	return errors.Join(err, link.Close(), p.Close())
}

// disturbances go on until end is closed, and happen at least once.
var disturbances = []func(end <-chan struct{}) error{collect, changeProcs, profile}

// collect collects garbage without pause.
func collect(end <-chan struct{}) error { return repeat(end, func(int) { runtime.GC() }) }

// changeProcs changes GOMAXPROCS, from one to twice what it was, which stops the world.
func changeProcs(end <-chan struct{}) error {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	return repeat(end, func(n int) {
		runtime.GOMAXPROCS(1 + n%(2*before))
		time.Sleep(time.Millisecond)
	})
}

// profile has SIGPROF come a thousand times for each second of processor time, or as often as the kernel has ticks.
func profile(end <-chan struct{}) error {
	// The profiler's own rate is 100; it keeps one that was set, and says so on standard error.
	runtime.SetCPUProfileRate(1000)
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		return err
	}
	<-end
	pprof.StopCPUProfile()
	return nil
}

// repeat does something until end is closed.
func repeat(end <-chan struct{}, do func(n int)) error {
	for n := 0; ; n++ {
		do(n)
		select {
		case <-end:
			return nil
		default:
		}
	}
}
