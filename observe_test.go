package stapsdt

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/sink"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// watch observes a provider until the test ends, and returns the lines of its events.
func watch(t testing.TB, p *Provider) (lines func() []string) {
	var mu sync.Mutex
	var list []string
	t.Cleanup(p.Observe(func(e *Event) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, e.String())
	}))
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		taken := list
		list = nil
		return taken
	}
}

// tryLoad loads a provider where that is possible.
func tryLoad(t testing.TB, p *Provider) {
	t.Helper()
	if err := p.Load(); !errors.Is(err, ErrUnsupported) {
		require.NoError(t, err)
	}
}

// TestObserve: an observer sees the events of every state of the provider but the last.
func TestObserve(t *testing.T) {
	p := newProvider(t, "seen")
	before := NewProbe2[string, int32](p, "before", "path", "status")
	require.False(t, before.Enabled())
	before.Fire("nobody", 1)
	lines := watch(t, p)
	require.True(t, before.Enabled())
	late := NewProbe0(p, "late")
	dynamic, err := p.AddProbe("dynamic", Uint8, String)
	require.NoError(t, err)
	wrong, err := p.AddProbe("wrong*")
	require.Error(t, err)
	fire := func() {
		before.Fire("/", 200)
		late.Fire()
		require.NoError(t, wrong.Fire())
		require.NoError(t, dynamic.Fire(1, []byte("bytes")))
		before.FireFunc(func() (string, int32) { return "func", -1 })
	}
	want := []string{`seen:before(path="/", status=200)`, `seen:late()`, `seen:dynamic(1, "bytes")`, `seen:before(path="func", status=-1)`}
	fire()
	require.Equal(t, want, lines(), "not loaded yet")
	require.ErrorIs(t, dynamic.Fire(1), ErrArgCount)
	require.ErrorIs(t, dynamic.Fire(256, ""), ErrArgType)
	require.Empty(t, lines(), "wrong arguments are no event")
	tryLoad(t, p)
	fire()
	require.Equal(t, want, lines(), "loaded")
	require.True(t, NewProbe0(p, "later").Enabled())
	require.NoError(t, p.Unload())
	fire()
	require.Equal(t, want, lines(), "unloaded")
	require.NoError(t, p.Close())
	fire()
	require.Empty(t, lines(), "closed")
	require.False(t, before.Enabled())
	watch(t, p)
	require.False(t, before.Enabled(), "a closed provider is not observed")
}

// TestObserveSome: an observer of some probes leaves the others idle.
func TestObserveSome(t *testing.T) {
	p, q := newProvider(t, "some"), newProvider(t, "other")
	a, b, c := NewProbe1[time.Duration](p, "a"), NewProbe0(p, "b"), NewProbe0(q, "c")
	state := func(want string) {
		t.Helper()
		got := ""
		for _, probe := range []*Probe{&a.Probe, &b.Probe, &c.Probe} {
			require.Equal(t, probe.Enabled(), probe.observed())
			require.False(t, probe.Traced())
			if probe.observed() {
				got += probe.Name()
			}
		}
		require.Equal(t, want, got)
	}
	seen := map[string]int{}
	observer := func(name string) func(*Event) {
		return func(e *Event) { seen[name+" "+e.Probe().Name()]++ }
	}
	fire := func(want map[string]int) {
		t.Helper()
		clear(seen)
		a.Fire(1)
		b.Fire()
		c.Fire()
		require.Equal(t, want, seen)
	}
	stopA := p.Observe(observer("first"), &a.Probe)
	state("a")
	tryLoad(t, p)
	state("a")
	fire(map[string]int{"first a": 1})
	stopB := p.Observe(observer("second"), &b.Probe, &c.Probe) // c is not p's
	state("ab")
	stopAll := p.Observe(observer("all"))
	require.True(t, NewProbe0(p, "late").Enabled())
	fire(map[string]int{"first a": 1, "second b": 1, "all a": 1, "all b": 1})
	stopA()
	state("ab")
	fire(map[string]int{"second b": 1, "all a": 1, "all b": 1})
	stopAll()
	state("b")
	require.False(t, NewProbe0(p, "later").Enabled())
	fire(map[string]int{"second b": 1})
	stopB()
	state("")
	fire(map[string]int{})
	require.Equal(t, KindDuration, a.Args()[0].Kind)
	require.Empty(t, b.Args())
	require.False(t, new(Probe).Traced())
}

func TestObserveNothing(t *testing.T) {
	for _, p := range []*Provider{nil, {}} {
		stop := p.Observe(func(*Event) {})
		probe, _ := p.AddProbe("probe")
		require.False(t, probe.Enabled())
		NewProbe0(p, "typed").Fire()
		stop()
	}
	p := newProvider(t, "nothing")
	probe := NewProbe0(p, "probe")
	p.Observe(nil)()
	require.False(t, probe.Enabled())
}

// TestStop: each observer ends for itself, and ending it again ends no other.
func TestStop(t *testing.T) {
	p := newProvider(t, "stop")
	probe := NewProbe1[int](p, "probe")
	var a, b, c int
	stopA := p.Observe(func(e *Event) { a += int(e.Arg(0).Int64()) })
	var stopB func()
	stopB = p.Observe(func(e *Event) { b++; stopB(); stopB() })
	stopC := p.Observe(func(e *Event) { c++ })
	probe.Fire(1)
	probe.Fire(10)
	stopA()
	stopA()
	require.True(t, probe.Enabled())
	probe.Fire(100)
	stopC()
	require.False(t, probe.Enabled())
	require.Same(t, &noSite[0], (*byte)(probe.at))
	probe.Fire(1000)
	require.Equal(t, []int{11, 1, 3}, []int{a, b, c})
	var stopD func()
	p.Observe(func(*Event) { a = 0; stopD() })
	stopD = p.Observe(func(*Event) { a = 1 })
	probe.Fire(1)
	require.Zero(t, a, "it can be observed again, and an observer can be stopped before its turn")
}

// sequences are the numbers that goroutines fire, of which none may be missing in between.
type sequences struct {
	probe    *Probe
	problems chan<- error

	mu   sync.Mutex
	next map[int64]int64 // by goroutine
}

func (s *sequences) observe(e *Event) {
	if e.Probe() != s.probe {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, n := e.Arg(0).Int64(), e.Arg(1).Int64()
	if text := e.Arg(2).String(); text != fmt.Sprint(g, "-", n) {
		s.problems <- fmt.Errorf("%d: %d comes with %q", g, n, text)
	}
	if was, ok := s.next[g]; ok && was != n {
		s.problems <- fmt.Errorf("%d: %d comes where %d should", g, n, was)
	}
	s.next[g] = n + 1
}

// TestObserveStorm makes every call of a provider and its probes at once. The race detector watches. An observer that
// stays sees each event of a goroutine, in order; those that come and go see a part of them
// without a gap.
func TestObserveStorm(t *testing.T) {
	p := newProvider(t, "storm")
	probe := NewProbe3[int, int, string](p, "probe", "goroutine", "n", "text")
	const goroutines, fires = 4, 3000
	problems := make(chan error, 1_000_000)
	all := &sequences{probe: &probe.Probe, problems: problems, next: map[int64]int64{}}
	for g := range goroutines {
		all.next[int64(g)] = 0
	}
	defer p.Observe(all.observe)()
	var firing, others sync.WaitGroup
	for g := range goroutines {
		firing.Go(func() {
			for n := range fires {
				if n%2 == 0 {
					probe.Fire(g, n, fmt.Sprint(g, "-", n))
				} else if err := probe.Probe.Fire(g, n, fmt.Sprint(g, "-", n)); err != nil {
					problems <- err
				}
				if n%100 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	var end atomic.Bool
	loop := func(f func()) {
		others.Go(func() {
			for !end.Load() {
				f()
			}
		})
	}
	for range 2 {
		loop(func() {
			some := &sequences{probe: &probe.Probe, problems: problems, next: map[int64]int64{}}
			stop := p.Observe(some.observe)
			runtime.Gosched()
			stop()
		})
	}
	loop(func() {
		p.Path()
		for _, any := range p.Probes() {
			any.argNames()
			any.Enabled()
		}
		runtime.Gosched()
	})
	loop(func() {
		if err := p.Load(); err != nil && !errors.Is(err, ErrUnsupported) {
			problems <- err
		}
		runtime.Gosched()
		if err := p.Unload(); err != nil {
			problems <- err
		}
	})
	others.Go(func() {
		for i := range 100 {
			late, err := p.AddProbe(fmt.Sprint("late", i), Int32)
			if err != nil || !late.Enabled() || late.Fire(i) != nil {
				problems <- fmt.Errorf("%v: %v", late, err)
			}
			if err := late.NameArgs("n"); err != nil && !errors.Is(err, ErrLoaded) {
				problems <- err
			}
			time.Sleep(time.Millisecond)
		}
	})
	firing.Wait()
	end.Store(true)
	others.Wait()
	close(problems)
	for err := range problems {
		assert.NoError(t, err)
	}
	for g := range goroutines {
		require.EqualValues(t, fires, all.next[int64(g)])
	}
	require.NoError(t, p.Close())
	requireNoneObserves(t)
}

// emptySink is a recording that has no probe, and counts how often it was asked.
type emptySink int

func (s *emptySink) Probe(func() (*recording.Probe, bool)) sink.Probe {
	*s++
	return nil
}

// TestRecordAsksOnce: a recording is asked once whether it has a probe. If not, others see the probe as before.
func TestRecordAsksOnce(t *testing.T) {
	p := newProvider(t, "asked")
	probe := NewProbe1[int](p, "probe")
	var asked emptySink
	defer recordTo(&asked, []*Provider{p})()
	for range 3 {
		seen := 0
		stop := p.Observe(func(*Event) { seen++ })
		probe.Fire(1)
		stop()
		require.Equal(t, 1, seen)
		require.False(t, probe.Enabled())
	}
	require.EqualValues(t, 1, asked)
}

// TestAnyStays: what Any returns stays as it is, also after the observer has returned.
func TestAnyStays(t *testing.T) {
	p := newProvider(t, "any")
	probe := NewProbe1[string](p, "text")
	var kept []any
	defer p.Observe(func(e *Event) { kept = append(kept, e.Arg(0).Any()) })()
	for _, text := range []string{"hello", "WORLD", "third"} {
		probe.Fire(text)
	}
	require.Equal(t, []any{"hello", "WORLD", "third"}, kept)
}

// TestObserveByName: an observer of one probe sees the others of its name, which are sites of the same event.
func TestObserveByName(t *testing.T) {
	p, other := newProvider(t, "sites"), newProvider(t, "sites")
	first, second := NewProbe1[int](p, "probe"), NewProbe1[int](p, "probe")
	elsewhere, unlike := NewProbe1[int](other, "probe"), NewProbe1[int](p, "unlike")
	var seen []any
	defer p.Observe(func(e *Event) { seen = append(seen, e.Arg(0).Any()) }, &first.Probe, &elsewhere.Probe, nil)()
	first.Fire(1)
	second.Fire(2)
	elsewhere.Fire(3)
	unlike.Fire(4)
	require.Equal(t, []any{int64(1), int64(2)}, seen)
	require.False(t, unlike.Enabled())
}
