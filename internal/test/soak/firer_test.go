//go:build linux && (amd64 || arm64)

package soak

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
)

// firer is a goroutine that fires without pause.
type firer struct {
	number int
	phase  *phase
	lanes  []*lane
	random *rand.Rand
	text   [8 + 255]byte
	err    error // of a fire
}

func newFirer(number int, p *phase, lanes []*lane) *firer {
	f := &firer{number: number, phase: p, lanes: lanes, random: rand.New(rand.NewPCG(uint64(number), 1))}
	for i := range f.text {
		f.text[i] = byte('a' + i%26)
	}
	return f
}

// run fires at every lane in turn until it is stopped.
func (f *firer) run(stop *atomic.Bool) {
	if f.phase.locked {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	for !stop.Load() {
		for _, l := range f.lanes {
			f.look(l)
			if f.phase.depth > 0 {
				deep(f.random.IntN(f.phase.depth), func() { f.burst(l) })
			} else {
				f.burst(l)
			}
		}
		if !f.phase.locked {
			runtime.Gosched() // or others would wait until they are preempted
		}
	}
}

// look answers a new target.
func (f *firer) look(l *lane) {
	a := l.firers[f.number]
	if t := l.target.Load(); t.epoch != a.epoch.Load() {
		a.done, a.now = a.now, bpf.Tally{}
		a.fired.Store(0)
		a.epoch.Store(t.epoch)
	}
}

// burst fires at the target that look has answered last. A newer one waits for its turn.
func (f *firer) burst(l *lane) {
	a := l.firers[f.number]
	t := l.target.Load()
	if t.epoch != a.epoch.Load() || t.fire == nil {
		return
	}
	for range firesAtOnce {
		value := f.random.Uint64()
		extra := value * 0x9e3779b97f4a7c15
		t.fire(f, t.window, value, extra)
		a.now.Add(bpf.Tally{Count: 1, Value: value, Extra: extra})
	}
	a.fired.Store(a.now.Count)
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
