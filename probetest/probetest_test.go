package probetest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stapsdt/stapsdt"

	"github.com/stretchr/testify/require"
)

// fake is a test that may fail.
type fake struct {
	testing.TB
	mu      sync.Mutex
	says    []string
	cleanup []func()
}

func (f *fake) Helper() {}

func (f *fake) Cleanup(c func()) { f.cleanup = append(f.cleanup, c) }

func (f *fake) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.says = append(f.says, fmt.Sprintf(format, args...))
}

func (f *fake) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *fake) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

// run runs a test and returns what it says when it fails.
func run(test func(t testing.TB)) []string {
	f := &fake{}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() {
			for _, c := range f.cleanup {
				c()
			}
		}()
		test(f)
	})
	wg.Wait()
	return f.says
}

// app is a program that is tested.
type app struct {
	provider *stapsdt.Provider
	start    *stapsdt.Probe1[string]
	done     *stapsdt.Probe3[string, int32, time.Duration]
	any      *stapsdt.Probe
}

func newApp(t *testing.T) *app {
	p := stapsdt.NewProvider("app")
	dynamic, err := p.AddProbe("any", stapsdt.Uint8)
	require.NoError(t, err)
	return &app{
		p, stapsdt.NewProbe1[string](p, "start", "path"),
		stapsdt.NewProbe3[string, int32, time.Duration](p, "done", "path", "status", "elapsed"), dynamic,
	}
}

func (a *app) get(path string) {
	a.start.Fire(path)
	a.done.FireFunc(func() (string, int32, time.Duration) { return path, 200, time.Second })
}

func TestRecord(t *testing.T) {
	a := newApp(t)
	rec := Record(t, a.provider)
	a.get("/a")
	a.get("/b")
	require.NoError(t, a.any.Fire(7))
	want := func() {
		a.start.Fire("/a")
		a.done.Fire("/a", 200, time.Second)
		a.start.Fire("/b")
		a.done.Fire("/b", 200, time.Second)
		a.any.Fire(7)
	}
	rec.Want(want)
	rec.Want(want) // it consumes nothing
	rec.Want(func() { a.start.Fire("/a"); a.start.Fire("/b") }, Only(&a.start.Probe))
	b := Where(func(e *stapsdt.Event) bool { return e.Arg(0).String() == "/b" })
	rec.Want(func() { a.start.Fire("/b"); a.done.Fire("/b", 200, 0) }, b, Ignore("elapsed"))
	require.Len(t, rec.Events(), 5)
	events := rec.Events(b, Only(&a.done.Probe))
	require.Len(t, events, 1)
	require.Equal(t, time.Second, events[0].ArgByName("elapsed").Duration())
	require.Len(t, rec.Events(OnlyNamed("start", "nothing")), 2)
	require.Len(t, rec.Events(OnlyNamed("[^d]*")), 3)
	require.Len(t, rec.Events(OnlyNamed("*"), b), 2)
	require.Empty(t, rec.Events(OnlyNamed()))
	require.Empty(t, rec.Events(OnlyNamed("star")))
	require.PanicsWithValue(t, `probetest: OnlyNamed: "[": syntax error in pattern`, func() { OnlyNamed("ok", "[") })
	rec.Reset()
	rec.Want(func() {})
	require.Empty(t, rec.Events())
}

// TestRecordingEnds: with the test.
func TestRecordingEnds(t *testing.T) {
	a := newApp(t)
	var rec *Recorder
	var f *fake
	require.Empty(t, run(func(t testing.TB) { rec, f = Record(t, a.provider), t.(*fake) }))
	rec.misfired(stapsdt.ErrArgCount)
	require.Empty(t, f.says, "a test that has ended must not be told")
	require.False(t, a.any.Enabled())
	require.NoError(t, a.any.Fire("not checked any longer"))
}

func TestDifference(t *testing.T) {
	a := newApp(t)
	says := run(func(t testing.TB) {
		rec := Record(t, a.provider)
		a.get("/a")
		a.start.Fire("/more")
		rec.Want(func() {
			a.start.Fire("/a")
			a.done.Fire("/a", 404, time.Second)
		})
	})
	require.Equal(t, []string{`probetest: the events of app differ (-want +got):
	  app:start(path="/a")
	- app:done(path="/a", status=404, elapsed=1s)
	+ app:done(path="/a", status=200, elapsed=1s)
	+ app:start(path="/more")`}, says)
	for name, want := range map[string]func(){
		"more": func() { a.get("/a"); a.get("/a") }, "less": func() {}, "order": func() { a.done.Fire("/a", 200, time.Second); a.start.Fire("/a") },
	} {
		require.Len(t, run(func(t testing.TB) {
			rec := Record(t, a.provider)
			a.get("/a")
			rec.Want(want)
		}), 1, name)
	}
}

// TestWantStops: what a function of Want fires counts as expected only until it ends, also
// by a panic.
func TestWantPanics(t *testing.T) {
	a := newApp(t)
	rec := Record(t, a.provider)
	require.Panics(t, func() {
		rec.Want(func() {
			a.start.Fire("/expected")
			panic("why not")
		})
	})
	a.start.Fire("/a")
	rec.Want(func() { a.start.Fire("/a") })
}

// TestWantInWant: the inner one takes only what it fires.
func TestWantInWant(t *testing.T) {
	a := newApp(t)
	rec := Record(t, a.provider)
	a.start.Fire("first")
	a.done.Fire("second", 2, 0)
	a.start.Fire("third")
	rec.Want(func() {
		a.start.Fire("first")
		rec.Want(func() { a.done.Fire("second", 2, 0) }, Only(&a.done.Probe))
		a.start.Fire("third")
	}, Only(&a.start.Probe))
	require.Len(t, rec.Events(), 3)
}

// TestWrongArguments: a fire with wrong arguments fails the test of its own provider.
func TestWrongArguments(t *testing.T) {
	a, other := newApp(t), newApp(t)
	says := run(func(t testing.TB) {
		Record(t, a.provider)
		a.any.Fire(256)
		other.any.Fire(256)
	})
	require.Len(t, says, 1)
	require.Regexp(t, `^probetest: stapsdt: fire app:any: wrong argument type: .*\n\tfired at .*/probetest_test.go:\d+$`, says[0])
	require.Empty(t, run(func(t testing.TB) {
		Record(t, other.provider)
		a.any.Fire(256)
	}))
}

func TestNilProvider(t *testing.T) {
	require.Len(t, run(func(t testing.TB) { Record(t, nil) }), 1)
}

func TestClosedProvider(t *testing.T) {
	p := stapsdt.NewProvider("closed")
	require.NoError(t, p.Close())
	require.Equal(t, []string{"probetest: the provider closed is closed, and so its probes do nothing"},
		run(func(t testing.TB) { Record(t, p) }))
}

func TestWait(t *testing.T) {
	a := newApp(t)
	rec := Record(t, a.provider)
	go func() {
		for _, path := range []string{"/a", "/b", "/c"} {
			time.Sleep(2 * time.Millisecond)
			a.get(path)
		}
	}()
	events := rec.Wait(3, time.Hour, Only(&a.done.Probe))
	require.Equal(t, "/c", events[2].Arg(0).String())
}

func TestWaitTooLong(t *testing.T) {
	a := newApp(t)
	after := false
	says := run(func(t testing.TB) {
		rec := Record(t, a.provider)
		a.get("/a")
		rec.Wait(2, 5*time.Millisecond, Only(&a.done.Probe))
		after = true
	})
	require.Equal(t, []string{`probetest: 1 of 2 events of app after 5ms; all that were recorded:
	app:start(path="/a")
	app:done(path="/a", status=200, elapsed=1s)`}, says)
	require.False(t, after, "Wait ends the test")
	says = run(func(t testing.TB) { Record(t, a.provider).Wait(1, 0) })
	require.True(t, strings.HasSuffix(says[0], "\n\tnone"), says[0])
}

// TestBubble: in a bubble of synctest, the events have its time, and those of goroutines
// outside do no harm.
func TestBubble(t *testing.T) {
	a := newApp(t)
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				a.start.Fire("/outside")
				runtime.Gosched()
			}
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		rec := Record(t, a.provider)
		mine := Where(func(e *stapsdt.Event) bool { return e.Arg(0).String() != "/outside" })
		go func() {
			a.start.Fire("/a")
			time.Sleep(time.Hour)
			a.done.Fire("/a", 200, time.Hour)
		}()
		synctest.Wait()
		rec.Want(func() { a.start.Fire("/a") }, mine)
		time.Sleep(2 * time.Hour)
		events := rec.Events(mine)
		require.Len(t, events, 2)
		require.Equal(t, time.Hour, events[1].Time()-events[0].Time())
		require.Len(t, rec.Wait(2, time.Minute, mine), 2)
	})
	close(end)
	<-ended
}

// TestLongLists: the difference of thousands of events, of which one differs or all do, takes neither minutes nor gigabytes.
func TestLongLists(t *testing.T) {
	p := stapsdt.NewProvider("app")
	probe := stapsdt.NewProbe1[int](p, "event")
	const events = 3000
	for _, different := range []int{1, events} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		says := run(func(t testing.TB) {
			rec := Record(t, p)
			for n := range events {
				probe.Fire(n)
			}
			rec.Want(func() {
				for n := range different {
					probe.Fire(-n - 1)
				}
				for n := different; n < events; n++ {
					probe.Fire(n)
				}
			})
		})
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
		require.Len(t, says, 1)
		require.Equal(t, events-different, strings.Count(says[0], "\n\t  app:event("))
		require.Equal(t, different, strings.Count(says[0], "\n\t- app:event("))
		require.Equal(t, different, strings.Count(says[0], "\n\t+ app:event("))
	}
}
