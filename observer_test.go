package stapsdt

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		mistaken(e)
	})
	lines := watch(t, p)
	said := stderr(t, func() {
		probe.Fire("mistake")
		probe.Fire("again")
	})
	require.Equal(t, 1, calls)
	require.Equal(t, []string{`panics:probe("mistake")`, `panics:probe("again")`}, lines())
	require.True(t, strings.HasPrefix(said, "stapsdt: an observer of panics panicked and is no longer called: the observer's mistake\n\ngoroutine "), said)
	require.Contains(t, said, "stapsdt.mistaken(", "the stack of the panic")
	require.Equal(t, 1, strings.Count(said, "stapsdt: "))
}

func mistaken(e *Event) { panic("the observer's " + e.Arg(0).String()) }

// fired is an error whose message fires a probe.
type fired struct{ *Probe0 }

func (f fired) Error() string {
	f.Fire()
	return "fired"
}

// TestObserverPanicsAndFires: what the report of a panic fires is seen by no observer.
func TestObserverPanicsAndFires(t *testing.T) {
	p := newProvider(t, "reports")
	probe, inner := NewProbe1[int](p, "probe"), NewProbe0(p, "inner")
	p.Observe(func(*Event) { panic(fired{inner}) })
	lines := watch(t, p)
	require.Contains(t, stderr(t, func() { probe.Fire(1) }), "fired")
	require.Equal(t, []string{"reports:probe(1)"}, lines())
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
						assert.Fail(t, "it has not ended")
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
	for i := range observerGoroutines.buckets {
		for j := range observerGoroutines.buckets[i] {
			require.Zero(t, observerGoroutines.buckets[i][j].Load())
		}
	}
	require.Zero(t, observerGoroutines.count.Load())
	require.Nil(t, observerGoroutines.others)
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
	require.Eventually(t, func() bool { return waiting.Load() == goroutines }, testenv.Patience, time.Millisecond)
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

// TestObserversAreLinkedForObserve builds a program that observes its probes and one that does
// not, and looks for what calls observers, also for what packages do before main.
func TestObserversAreLinkedForObserve(t *testing.T) {
	testenv.Long(t, "it builds programs")
	testenv.NeedsTool(t, "go", "golang")
	for definition, linked := range map[string]bool{
		`p1 = NewProbe1[int](p, "p1", "a")`:                                 false,
		"p1 = NewProbe1[int](p, \"p1\")\nstop = p.Observe(func(*Event) {})": true,
	} {
		symbols := symbolsOf(t, "var (\np = NewProvider(\"p\")\n"+definition+"\n)\nfunc main() { println(p.Load(), len(p.Probes())); p1.Fire(1) }\n")
		require.Contains(t, symbols, "stapsdt.(*Provider).add\n")
		require.Equal(t, linked, strings.Contains(symbols, "stapsdt.(*goroutines).add\n"))
		require.Equal(t, linked, strings.Contains(symbols, "stapsdt.observerGoroutines\n"))
		require.NotContains(t, symbols, "stapsdt.(*Event).String\n", "nothing prints an event")
	}
}

// symbolsOf builds a program of package main that imports this package, and returns its symbols.
func symbolsOf(t *testing.T, source string, imports ...string) string {
	t.Helper()
	dir := t.TempDir()
	path, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	program := "package main\nimport . \"github.com/go-stapsdt/stapsdt\"\n"
	for _, one := range imports {
		program += fmt.Sprintf("import %q\n", one)
	}
	require.NoError(t, os.WriteFile(path, []byte(program+source), 0o600))
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %s\n%s", strings.Join(args, " "), out)
		return string(out)
	}
	run("build", "-o", binary, path)
	return run("tool", "nm", binary)
}

// TestLinkedForEnvironment: what is large and not needed for it is not in a program that obeys its environment. A single
// reference can bring it: a time.Time in a struct that a method leads to has time zones and formats.
func TestLinkedForEnvironment(t *testing.T) {
	testenv.Long(t, "it builds a program")
	testenv.NeedsTool(t, "go", "golang")
	symbols := symbolsOf(t, `var p = NewProbe1[int](NewProvider("p"), "p1", "a")
func main() { println(probeenv.Load()); p.Fire(1) }
`, "github.com/go-stapsdt/stapsdt/probeenv")
	require.Contains(t, symbols, "probesock.(*listener).tidy\n")
	for _, unneeded := range []string{
		"time.Time.Format", "time.LoadLocationFromTZData", "os.(*File).readdir", "os.(*fileStat).ModTime", "golang.org/x/sys/unix.anyToSockaddr",
		"runtime.readmemstats_m", "github.com/go-stapsdt/stapsdt.(*Event).String", "net.init", "encoding/json.init",
	} {
		require.NotContains(t, symbols, " "+unneeded+"\n")
	}
}
