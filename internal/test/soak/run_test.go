//go:build linux && (amd64 || arm64)

package soak

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
)

// run is a phase that runs.
type run struct {
	phase
	dir      string
	counter  *bpf.Counter
	deadline time.Time

	// What the lanes share that attach to one provider.
	once        sync.Once
	shared      *stapsdt.Provider
	sharedFires []fire
	sharedSites []bpf.Site
	sharedErr   error

	mu     sync.Mutex
	result result
	free   bpf.Tally // fired in no window
}

// result is what came out of a phase.
type result struct {
	Fired, Seen, Free, FreeSeen uint64
	Cycles, Goal                int
	Seconds                     float64
	Notes                       []string // of the disturbances
}

// execute runs the phase until its work is done, or its time is over.
func (p phase) execute(budget time.Duration) (result, error) {
	r := &run{phase: p, deadline: time.Now().Add(budget)}
	r.result.Goal = p.cycles
	dir, err := os.MkdirTemp("", "stapsdt-soak")
	if err != nil {
		return r.result, err
	}
	defer os.RemoveAll(dir)
	r.dir = dir
	args, err := p.shape.arguments()
	if err != nil {
		return r.result, err
	}
	windows := (p.cycles+p.lanes-1)/p.lanes + 1
	if r.counter, err = bpf.NewCounter(p.lanes, windows, args); err != nil {
		return r.result, err
	}
	defer r.counter.Close()
	start := time.Now()
	err = r.fireAll(windows)
	r.result.Seconds = time.Since(start).Seconds()
	return r.result, errors.Join(err, r.compareRest())
}

// fireAll starts everything that fires and disturbs, and stops it when the cycles have been done.
func (r *run) fireAll(windows int) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.NumCPU())))
	if r.locked {
		// They do not make way, so cycles need a processor of Go's to themselves.
		runtime.GOMAXPROCS(r.firers + 1)
	}
	lanes := make([]*lane, r.lanes)
	for i := range lanes {
		lanes[i] = newLane(r.firers)
	}
	var stop atomic.Bool
	var firing sync.WaitGroup
	firers := make([]*firer, r.firers)
	for i := range firers {
		firers[i] = newFirer(i, &r.phase, lanes)
		firing.Go(func() { firers[i].run(&stop) })
	}
	end := make(chan struct{})
	notes := make([]string, len(r.disturb))
	errs := make([]error, len(r.disturb)+len(lanes))
	var disturbing, working sync.WaitGroup
	for i, d := range r.disturb {
		disturbing.Go(func() { notes[i], errs[i] = d(end) })
	}
	for i, l := range lanes {
		working.Go(func() {
			if err := r.work(i, l, windows); err != nil {
				errs[len(r.disturb)+i] = fmt.Errorf("lane %d: %w", i, err)
			}
		})
	}
	working.Wait()
	close(end)
	disturbing.Wait()
	stop.Store(true)
	firing.Wait()
	r.result.Notes = notes
	for _, f := range firers {
		errs = append(errs, f.err)
	}
	if r.shared != nil {
		errs = append(errs, r.shared.Close())
	}
	return errors.Join(errs...)
}

// work does the cycles of a lane.
func (r *run) work(number int, l *lane, windows int) error {
	once, end, err := r.cycle(r, number, l)
	if err != nil {
		return err
	}
	share := r.cycles / r.lanes
	if number < r.cycles%r.lanes {
		share++
	}
	for window := 1; window <= share && (window == 1 || time.Now().Before(r.deadline)); window++ {
		if window >= windows {
			err = fmt.Errorf("no window %d", window)
		}
		if err == nil {
			err = once(window)
		}
		if err != nil {
			err = fmt.Errorf("cycle %d: %w", window, err)
			break
		}
		r.mu.Lock()
		r.result.Cycles++
		r.mu.Unlock()
	}
	// What was fired in no window is known only after the last fire.
	return errors.Join(err, r.outside(l, nil), end())
}

// provider makes and loads a provider. The cookie of its sites is the lane's number.
func (r *run) provider(name string, lane, probes int) (*stapsdt.Provider, []fire, []bpf.Site, error) {
	p, fires, err := r.shape.load(name, probes, stapsdt.WithDir(r.dir))
	if err != nil {
		return nil, nil, nil, err
	}
	if !strings.HasPrefix(p.Path(), r.dir) {
		return nil, nil, nil, fmt.Errorf("the image is not in %s but %s", r.dir, p.Path())
	}
	sites, err := bpf.Sites(p.Path())
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range sites {
		sites[i].Cookie = uint64(lane)
	}
	return p, fires, sites, nil
}

// window opens a window, lets firers fire its share, closes it, and compares. The tracer must be attached.
func (r *run) window(number int, l *lane, window int, f fire) error {
	free, err := l.aim(window, f)
	if err != nil {
		return err
	}
	if err := l.wait(r.fires / r.cycles); err != nil {
		return fmt.Errorf("nobody fires: %w", err)
	}
	fired, err := l.aim(0, f)
	if err != nil {
		return err
	}
	seen, err := r.counter.Tally(uint64(number), window)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free.Add(free)
	r.result.Fired += fired.Count
	r.result.Seen += seen.Count
	if fired != seen {
		return fmt.Errorf("window %d: fired %+v, seen %+v", window, fired, seen)
	}
	return nil
}

// outside has firers fire in no window.
func (r *run) outside(l *lane, f fire) error {
	free, err := l.aim(0, f)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free.Add(free)
	return err
}

// compareRest looks at what is in no window.
func (r *run) compareRest() error {
	strays, err := r.counter.Strays()
	if err != nil {
		return err
	}
	var seen bpf.Tally
	for lane := range r.lanes {
		t, err := r.counter.Tally(uint64(lane), 0)
		if err != nil {
			return err
		}
		seen.Add(t)
	}
	r.result.Free, r.result.FreeSeen = r.free.Count, seen.Count
	switch {
	case strays != bpf.Tally{}:
		return fmt.Errorf("seen with a window that was never fired: %+v", strays)
	case r.exact && seen != r.free || seen.Count > r.free.Count || seen.Faults > 0:
		return fmt.Errorf("outside of windows: fired %+v, seen %+v", r.free, seen)
	}
	return nil
}
