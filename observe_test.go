package stapsdt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

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
			require.Equal(t, probe.Enabled(), probe.Observed())
			require.False(t, probe.Traced())
			if probe.Observed() {
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
	require.Equal(t, []Kind{KindDuration}, a.ArgKinds())
	require.Empty(t, b.ArgKinds())
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

type (
	status   int16
	elapsed  time.Duration
	fraction float32
)

// TestEventValues: an argument has the kind of its Go type, and its value.
func TestEventValues(t *testing.T) {
	p := newProvider(t, "values")
	numbers := NewProbe6[bool, status, uint64, time.Duration, fraction, float64](p, "numbers")
	texts := NewProbe5[string, []byte, unsafe.Pointer, uintptr, elapsed](p, "texts")
	dynamic, err := p.AddProbe("dynamic", Uint8, Int64, Float32, Float64, String, String, Uint64, Int8, Int16, Int32, Uint16, Uint32)
	require.NoError(t, err)
	var e *Event
	stop := p.Observe(func(event *Event) { e = event.Clone() })
	defer stop()
	var kinds []Kind
	values := func() (list []any) {
		kinds = nil
		for i := range e.NumArgs() {
			kinds = append(kinds, e.Arg(i).Kind())
			list = append(list, e.Arg(i).Any())
		}
		return list
	}
	numbers.Fire(true, -5, 1<<63, time.Minute, 0.1, 0.1)
	require.Equal(t, []any{true, int64(-5), uint64(1 << 63), time.Minute, float64(float32(0.1)), 0.1}, values())
	require.Equal(t, []Kind{KindBool, KindInt64, KindUint64, KindDuration, KindFloat64, KindFloat64}, kinds)
	require.Same(t, &numbers.Probe, e.Probe())
	require.Equal(t, "values:numbers(true, -5, 9223372036854775808, 1m0s, 0.10000000149011612, 0.1)", e.String())

	x := unsafe.Pointer(p)
	texts.Fire("text", []byte("with a \x00"), x, uintptr(x), 7)
	require.Equal(t, []any{"text", "with a \x00", uintptr(x), uint64(uintptr(x)), int64(7)}, values())
	require.Equal(t, []Kind{KindString, KindString, KindPointer, KindUint64, KindInt64}, kinds)
	require.Equal(t, uintptr(x), e.Arg(2).Pointer())
	require.Equal(t, fmt.Sprintf("%p", x), e.Arg(2).String())

	long := strings.Repeat("x", MaxString)
	require.NoError(t, dynamic.Fire(255, -1, float32(0.5), 1e300, long, "", x, -128, -1, -1, 1, 2))
	require.Equal(t, []any{uint64(255), int64(-1), 0.5, 1e300, long[1:], "", uint64(uintptr(x)), int64(-128), int64(-1), int64(-1), uint64(1), uint64(2)}, values())
	require.Panics(t, func() { e.Arg(12) })
	require.Panics(t, func() { e.Arg(-1) })
	numbers.Fire(false, 0, 0, 0, 0, 0)
	require.Panics(t, func() { e.Arg(6) })
}

// TestConversions: a value of any kind can be asked for any other.
func TestConversions(t *testing.T) {
	for _, c := range []struct {
		v        Value
		asInt    int64
		asFloat  float64
		asBool   bool
		asString string
		name     string
	}{
		{Value{kind: KindInt64, num: 1<<64 - 2}, -2, -2, true, "-2", "int64"},
		{Value{kind: KindUint64, num: 3}, 3, 3, true, "3", "uint64"},
		{Value{kind: KindDuration, num: 3}, 3, 3, true, "3ns", "time.Duration"},
		{Value{kind: KindBool}, 0, 0, false, "false", "bool"},
		{Value{kind: KindBool, num: 1}, 1, 1, true, "true", "bool"},
		{Value{kind: KindPointer, num: 16}, 16, 16, true, "0x10", "uintptr"},
		{Value{kind: KindString, text: "7"}, 0, 0, false, "7", "string"},
		{float32Value(0x3fc00000), 1, 1.5, true, "1.5", "float64"},
		{Value{}, 0, 0, false, "", "Kind(0)"},
	} {
		require.Equal(t, c.asInt, c.v.Int64(), c.name)
		require.Equal(t, uint64(c.asInt), c.v.Uint64(), c.name)
		require.Equal(t, uintptr(c.asInt), c.v.Pointer(), c.name)
		require.Equal(t, time.Duration(c.asInt), c.v.Duration(), c.name)
		require.Equal(t, c.asFloat, c.v.Float64(), c.name)
		require.Equal(t, c.asBool, c.v.Bool(), c.name)
		require.Equal(t, c.asString, c.v.String(), c.name)
		require.Equal(t, c.name, c.v.Kind().String())
	}
	require.Nil(t, Value{}.Any())
	require.Equal(t, "<no event>", (*Event)(nil).String())
}

func TestEventTime(t *testing.T) {
	p := newProvider(t, "time")
	probe := NewProbe0(p, "probe")
	var times []time.Duration
	defer p.Observe(func(e *Event) { times = append(times, e.Time()) })()
	start := time.Now()
	probe.Fire()
	time.Sleep(10 * time.Millisecond)
	probe.Fire()
	require.GreaterOrEqual(t, times[1]-times[0], 10*time.Millisecond)
	require.LessOrEqual(t, times[1]-times[0], time.Since(start))
}

// TestEventIsReused: what an observer keeps is reused, and says that it is no event. A
// Clone is not.
func TestEventIsReused(t *testing.T) {
	p := newProvider(t, "reuse")
	probe := NewProbe1[string](p, "probe")
	var kept, clone *Event
	defer p.Observe(func(e *Event) { kept, clone = e, e.Clone() })()
	probe.Fire("first")
	first := clone
	require.Equal(t, "<no event>", kept.String())
	probe.Fire("other")
	require.Equal(t, "first", first.Arg(0).String())
}

// stderr returns what f writes to os.Stderr.
func stderr(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	before := os.Stderr
	os.Stderr = w
	defer func() { os.Stderr = before }()
	text := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		text <- string(all)
	}()
	f()
	w.Close()
	return <-text
}

// TestObserverPanics: the goroutine that fires does not notice, nor do other observers.
func TestObserverPanics(t *testing.T) {
	p := newProvider(t, "panics")
	probe := NewProbe1[string](p, "probe")
	calls := 0
	p.Observe(func(e *Event) {
		calls++
		panic("the observer's " + e.Arg(0).String())
	})
	lines := watch(t, p)
	said := stderr(t, func() {
		probe.Fire("mistake")
		probe.Fire("again")
	})
	require.Equal(t, 1, calls)
	require.Equal(t, []string{`panics:probe("mistake")`, `panics:probe("again")`}, lines())
	require.True(t, strings.HasPrefix(said, "stapsdt: an observer of panics panicked, and observes no longer: the observer's mistake\n\ngoroutine "), said)
	require.Contains(t, said, "TestObserverPanics", "the stack of the panic")
	require.Equal(t, 1, strings.Count(said, "stapsdt: "))
}

// TestObserverPanicsWithNil: where that is no *runtime.PanicNilError.
func TestObserverPanicsWithNil(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	p := newProvider(t, "nil")
	probe := NewProbe0(p, "probe")
	p.Observe(func(e *Event) { panic(nil) })
	lines := watch(t, p)
	said := stderr(t, func() {
		probe.Fire()
		probe.Fire()
	})
	require.Equal(t, []string{"nil:probe()", "nil:probe()"}, lines())
	require.Equal(t, 1, strings.Count(said, "stapsdt: an observer of nil panicked"), said)
	requireNoneObserves(t)
}

// TestObserverExits: an observer that ends the goroutine leaves everything in order, even if
// it panics on the way.
func TestObserverExits(t *testing.T) {
	for name, f := range map[string]func(*Event){
		"exit": func(*Event) { runtime.Goexit() },
		"exit and panic": func(*Event) {
			defer panic("while it exits")
			runtime.Goexit()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, "exits")
			probe := NewProbe0(p, "probe")
			stderr(t, func() {
				for range 100 {
					stop := p.Observe(f)
					done := make(chan bool)
					go func() {
						defer close(done)
						probe.Fire()
						t.Error("it has not ended")
					}()
					<-done
					stop()
				}
			})
			requireNoneObserves(t)
		})
	}
}

// requireNoneObserves: no goroutine is taken for one that is in an observer.
func requireNoneObserves(t *testing.T) {
	t.Helper()
	for i := range observing.buckets {
		for j := range observing.buckets[i] {
			require.Zero(t, observing.buckets[i][j].Load())
		}
	}
	require.Zero(t, observing.count.Load())
	require.Empty(t, observing.others)
}

// TestObserverFires: what an observer fires is seen by no observer, of any provider, so
// that it ends.
func TestObserverFires(t *testing.T) {
	p, q := newProvider(t, "outer"), newProvider(t, "inner")
	outer, inner := NewProbe1[int](p, "event"), NewProbe1[int](q, "event")
	n := 0
	defer p.Observe(func(e *Event) {
		n++
		require.True(t, outer.Enabled())
		outer.Fire(n)
		inner.Fire(n)
	})()
	innerLines := watch(t, q)
	outer.Fire(0)
	inner.Fire(5)
	outer.Fire(0)
	require.Equal(t, 2, n)
	require.Equal(t, []string{"inner:event(5)"}, innerLines())
	requireNoneObserves(t)
}

// TestObserversBlock: goroutines that wait in an observer, more than the set of them has
// slots, keep nothing else from working.
func TestObserversBlock(t *testing.T) {
	p := newProvider(t, "blocks")
	probe := NewProbe1[bool](p, "probe")
	end := make(chan bool)
	var waiting, nested atomic.Int64
	stop := p.Observe(func(e *Event) {
		if !e.Arg(0).Bool() {
			nested.Add(1)
			return
		}
		probe.Fire(false) // is not seen
		waiting.Add(1)
		<-end
		probe.Fire(false)
	})
	const goroutines = 1000
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			probe.Fire(true)
			probe.Fire(false)
		})
	}
	require.Eventually(t, func() bool { return waiting.Load() == goroutines }, 10*time.Second, time.Millisecond)
	probe.Fire(false)
	require.EqualValues(t, 1, nested.Load())
	tryLoad(t, p)
	require.NoError(t, p.Unload())
	NewProbe1[bool](p, "late").Fire(false)
	p.Observe(func(*Event) {})()
	require.EqualValues(t, 2, nested.Load())
	other := p.Observe(func(*Event) {})
	close(end)
	wg.Wait()
	require.EqualValues(t, 2+goroutines, nested.Load())
	stop()
	other()
	require.False(t, probe.Enabled())
	requireNoneObserves(t)
}

// TestStopEndsCalls: a fire that begins after stop has returned does not call the observer,
// nor one that begins after Close.
func TestStopEndsCalls(t *testing.T) {
	for name, end := range map[string]func(p *Provider, stop func()){
		"stop":  func(_ *Provider, stop func()) { stop() },
		"close": func(p *Provider, _ func()) { p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			for range 200 {
				p := NewProvider("ends")
				probe := NewProbe1[bool](p, "probe")
				var ended atomic.Bool
				var late atomic.Int64
				stop := p.Observe(func(e *Event) {
					if e.Arg(0).Bool() {
						late.Add(1)
					}
				})
				other := p.Observe(func(e *Event) {})
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() {
						for range 200 {
							probe.Fire(ended.Load())
						}
					})
				}
				wg.Go(func() {
					end(p, stop)
					ended.Store(true)
				})
				wg.Wait()
				require.Zero(t, late.Load())
				other()
			}
		})
	}
}

// TestObserveStorm makes every call that changes what a fire does, at once. An observer that
// stays sees each event of a goroutine, in order; those that come and go see a part of them
// without a gap.
func TestObserveStorm(t *testing.T) {
	p := newProvider(t, "storm")
	probe := NewProbe3[int, int, string](p, "probe", "goroutine", "n", "text")
	const goroutines, fires = 4, 3000
	var mu sync.Mutex
	next := map[int64]int64{}
	check := func(next map[int64]int64, e *Event) error {
		if e.Probe() != &probe.Probe {
			return nil
		}
		g, n := e.Arg(0).Int64(), e.Arg(1).Int64()
		if text := e.Arg(2).String(); text != fmt.Sprint(g, "-", n) {
			return fmt.Errorf("%d: %d comes with %q", g, n, text)
		}
		if was, ok := next[g]; ok && was != n {
			return fmt.Errorf("%d: %d comes where %d should", g, n, was)
		}
		next[g] = n + 1
		return nil
	}
	problems := make(chan error, 1_000_000)
	locked := func(next map[int64]int64, mu *sync.Mutex) func(*Event) {
		return func(e *Event) {
			mu.Lock()
			defer mu.Unlock()
			if err := check(next, e); err != nil {
				problems <- err
			}
		}
	}
	for g := range goroutines {
		next[int64(g)] = 0
	}
	defer p.Observe(locked(next, &mu))()
	var firing, others sync.WaitGroup
	for g := range goroutines {
		firing.Go(func() {
			for n := range fires {
				probe.Fire(g, n, fmt.Sprint(g, "-", n))
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
			stop := p.Observe(locked(map[int64]int64{}, new(sync.Mutex)))
			runtime.Gosched()
			stop()
		})
	}
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
			time.Sleep(time.Millisecond)
		}
	})
	firing.Wait()
	end.Store(true)
	others.Wait()
	close(problems)
	for err := range problems {
		t.Error(err)
	}
	for g := range goroutines {
		require.EqualValues(t, fires, next[int64(g)])
	}
	require.NoError(t, p.Close())
	requireNoneObserves(t)
}

// TestObservedDoesNotAllocate: neither the event nor what the observer reads of it.
func TestObservedDoesNotAllocate(t *testing.T) {
	testenv.NotRaced(t, "sync.Pool drops what it was given, at random")
	testenv.NotSanitized(t, "the address sanitizer has variables escape")
	testenv.NeedsOptimization(t, "Fire is not inlined, and its arguments are allocated")
	s := newIdleProbes(t)
	var read int
	defer s.any.Provider().Observe(func(e *Event) {
		for i := range e.NumArgs() {
			v := e.Arg(i)
			read += len(v.text) + int(v.Int64()) + int(v.Kind())
		}
	})()
	for _, f := range s.idleFires() {
		require.Zero(t, testing.AllocsPerRun(100, func() { f.fire(1) }), f.name)
	}
	var err error
	require.Zero(t, testing.AllocsPerRun(100, func() { err = s.any.Fire(benchNumber, int32(200)) }), "variadic")
	require.NoError(t, err)
	require.NotZero(t, read)
}

// benchNumber does not fit a byte: small ones are in an interface for free.
var benchNumber uint64 = 1 << 40

// TestIdleArgumentsStayOnTheStack: a caller's text does not escape, because nothing keeps
// it: not even an observer could.
func TestIdleArgumentsStayOnTheStack(t *testing.T) {
	testenv.NotSanitized(t, "the address sanitizer has variables escape")
	testenv.NeedsOptimization(t, "Fire is not inlined, and its arguments are allocated")
	s := newIdleProbes(t)
	n := byte(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		n++
		b := make([]byte, 0, 20) // becomes garbage with the frame
		b = append(b, n, n, n)
		s.oneString.Fire(string(b))
		s.twoMixed.Fire(string(append(b, 'x')), 1)
		s.threeMixed.Fire("constant", 1, append(b, 'y'))
		s.sixMixed.Fire(string(b), 1, b, true, string(b), 1)
	}))
}

// BenchmarkObserved is what a fire costs with one observer, and BenchmarkClock what of this is
// the reading of the clock.
func BenchmarkObserved(b *testing.B) {
	s := newIdleProbes(b)
	defer s.any.Provider().Observe(func(e *Event) {})()
	for _, f := range s.idleFires() {
		b.Run(f.name, func(b *testing.B) {
			b.ReportAllocs()
			f.fire(b.N)
		})
	}
	b.Run("args=2/kind=any", func(b *testing.B) {
		b.ReportAllocs()
		require.NoError(b, s.fireAny(b.N))
	})
}

func BenchmarkClock(b *testing.B) {
	start := time.Now()
	var sum time.Duration
	for range b.N {
		sum += time.Since(start)
	}
	require.NotZero(b, sum)
}
