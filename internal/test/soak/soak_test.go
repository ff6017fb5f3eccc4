//go:build linux && (amd64 || arm64)

// Package soak fires probes under a tracer, in every way that could lose a fire, and compares what the program has fired
// with what the tracer has seen: how often, and the sums of the arguments. They must be equal. scripts/lib/soak.sh runs
// it for longer, in both builds. It needs root and Linux 6.6.
//
// # Why the counts are exact
//
// Goroutines fire without pause. The first argument is the number of a window, or 0 for none. A window opens when the
// tracer is attached and the provider loaded, and it is closed, with the lane's lock, before anything detaches or
// unloads. The tracer counts by that argument. So each fire of a window must be in its count, whatever happened to the
// fires before, between and after, which a tracer may have seen or not.
package soak

import (
	"flag"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

var (
	scale  = flag.Float64("scale", 0.001, "how much of their work the phases do")
	within = flag.Duration("within", 0, "how long they may take together; what is not done by then is left out")
)

// phase is one way to fire and to disturb. The figures are for a scale of 1.
type phase struct {
	name   string
	fires  int // in windows
	cycles int // each of which has one window
	weight int // its share of the time, in percent

	width  int  // lanes that are worked at concurrently, each with a provider of its own
	firers int  // goroutines that fire at all lanes
	locked bool // to threads
	depth  int  // how many calls deep a firer may fire
	probe  func(p *stapsdt.Provider) fire
	// churn has a new provider for each window. Otherwise a tracer is attached before the first fire and until after the last, so
	// that fires outside windows are counted too.
	churn   bool
	disturb bool
}

// The weights add up to 100.
var phases = []phase{
	{name: "threads", fires: 10_000_000, cycles: 20, weight: 30, width: 1, firers: 2, locked: true, probe: text},
	{name: "disturbed", fires: 2_000_000, cycles: 20, weight: 15, width: 1, firers: 8, depth: 1000, probe: twelve, disturb: true},
	{name: "providers", fires: 1_000_000, cycles: 2000, weight: 40, width: 20, firers: 2, probe: text, churn: true},
	{name: "all", fires: 500_000, cycles: 250, weight: 15, width: 10, firers: 4, depth: 500, probe: twelve, churn: true, disturb: true},
}

// firesAtOnce is how many fires a firer makes before it looks for what changed.
const firesAtOnce = 16

// run is a phase that runs.
type run struct {
	phase
	dir     string
	counter *bpf.Counter
	lanes   []*lane

	mu                sync.Mutex
	inside, free      bpf.Tally // fired in windows, and outside
	cycled, perWindow int
}

func TestPhases(t *testing.T) {
	bpf.Need(t)
	for _, p := range phases {
		t.Run(p.name, func(t *testing.T) {
			p.cycles = max(int(float64(p.cycles)**scale), p.width, 2)
			p.fires = max(int(float64(p.fires)**scale), p.cycles)
			budget := testenv.Patience
			if *within > 0 {
				budget = *within * time.Duration(p.weight) / 100
			}
			newRun(t, p).execute(t, time.Now().Add(budget))
		})
	}
}

func newRun(t *testing.T, p phase) *run {
	r := &run{phase: p, dir: t.TempDir(), perWindow: p.fires / p.cycles}
	example := stapsdt.NewProvider("example", stapsdt.WithDir(r.dir))
	defer example.Close()
	p.probe(example)
	require.NoError(t, example.Load())
	sites, err := bpf.Sites(example.Path())
	require.NoError(t, err)
	args := sites[0].Args
	counted := bpf.Arguments{Window: args[0], Value: args[1], Extra: args[len(args)-1], Text: len(args) == 3}
	r.counter, err = bpf.NewCounter(p.width, (p.cycles+p.width-1)/p.width+1, counted)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.counter.Close()) })
	for number := range p.width {
		r.lanes = append(r.lanes, &lane{number: number})
	}
	return r
}

// execute runs the phase until its work is done, or its time is over.
func (r *run) execute(t *testing.T, deadline time.Time) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.NumCPU())))
	if r.locked {
		// They do not make way, so cycles need a processor of Go's to themselves.
		runtime.GOMAXPROCS(r.firers + 1)
	}
	var stop atomic.Bool
	var firing sync.WaitGroup
	for number := range r.firers {
		firing.Go(func() { r.fireAll(rand.New(rand.NewPCG(uint64(number), 1)), &stop) })
	}
	end := make(chan struct{})
	var disturbing, working errgroup.Group
	if r.disturb {
		for _, disturb := range disturbances {
			disturbing.Go(func() error { return disturb(end) })
		}
	}
	for _, l := range r.lanes {
		working.Go(func() error { return r.work(l, deadline) })
	}
	err := working.Wait()
	close(end)
	require.NoError(t, disturbing.Wait())
	stop.Store(true)
	firing.Wait()
	require.NoError(t, err)
	r.compare(t)
}

// compare looks at all that was fired, once nothing fires any more.
func (r *run) compare(t *testing.T) {
	t.Logf("%d of %d cycles: fired %+v in windows, %+v outside", r.cycled, r.cycles, r.inside, r.free)
	require.GreaterOrEqual(t, r.inside.Count, uint64(r.perWindow*r.cycled))
	require.NotZero(t, r.cycled)
	if *within == 0 {
		require.Equal(t, r.cycles, r.cycled)
	}
	strays, err := r.counter.Strays()
	require.NoError(t, err)
	require.Zero(t, strays, "seen with a window that was never fired")
	var seen bpf.Tally
	for number := range r.lanes {
		tally, err := r.counter.Tally(uint64(number), 0)
		require.NoError(t, err)
		seen.Add(tally)
	}
	require.LessOrEqual(t, seen.Count, r.free.Count)
	require.Zero(t, seen.Faults)
	if !r.churn {
		require.Equal(t, r.free, seen)
	}
}

// attach attaches the tracer to a provider. The cookie is the lane's number.
func (r *run) attach(p *stapsdt.Provider, lane int) (io.Closer, error) {
	if !strings.HasPrefix(p.Path(), r.dir) {
		panic("the image is in " + p.Path())
	}
	sites, err := bpf.Sites(p.Path())
	if err != nil {
		return nil, err
	}
	sites[0].Cookie = uint64(lane)
	return r.counter.Attach(p.Path(), sites)
}
