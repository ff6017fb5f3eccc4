//go:build linux && (amd64 || arm64)

package process

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/bpf"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// storm makes calls without an end until stop, which returns their first error.
func storm(calls ...func() error) (stop func() error) {
	var end atomic.Bool
	var all errgroup.Group
	for _, call := range calls {
		all.Go(func() error {
			for !end.Load() {
				if err := call(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return func() error {
		end.Store(true)
		return all.Wait()
	}
}

// sums is what was fired or observed in a window.
type sums struct {
	mu sync.Mutex
	bpf.Tally
}

func (s *sums) add(value uint64, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Add(bpf.Tally{Count: 1, Value: value, Extra: binary.NativeEndian.Uint64([]byte(text))})
}

// TestTracersAndObserversSeeTheSame: of the events that lie within both attachments, a tracer
// and an observer see each one once, with the same values, while other observers and tracers
// come and go and other goroutines fire. Between the windows the provider is unloaded and
// loaded.
func TestTracersAndObserversSeeTheSame(t *testing.T) {
	bpf.Need(t)
	p := newProvider(t, "both")
	event := stapsdt.NewProbe3[uint64, uint64, string](p, "event", "window", "value", "text")
	load(t, p)
	sites := tracetest.Must(bpf.Sites(p.Path()))(t)
	path, args := p.Path(), sites[0].Args
	const windows, goroutines, fires = 30, 4, 500
	counter := tracetest.Must(bpf.NewCounter(1, windows, bpf.Arguments{Window: args[0], Value: args[1], Extra: args[2], Text: true}))(t)
	defer func() { require.NoError(t, counter.Close()) }()

	stop := storm(
		func() error { p.Observe(func(*stapsdt.Event) {})(); return nil },
		func() error { p.Observe(func(e *stapsdt.Event) { _ = e.Clone().String() })(); return nil },
		func() error {
			c, err := tracetest.CountUprobe(path, sites[0].Offset)
			if err != nil {
				return err
			}
			return c.Close()
		},
		func() error { event.Fire(windows, 0, "a stray!"); return nil },
	)
	for window := range windows {
		var seen sums
		var unobserve func()
		var detach func() error
		begin := []func(){
			func() {
				unobserve = p.Observe(func(e *stapsdt.Event) {
					if e.Arg(0).Uint64() == uint64(window) {
						seen.add(e.Arg(1).Uint64(), e.Arg(2).String())
					}
				})
			},
			func() {
				detach = tracetest.Must(counter.Attach(path, sites))(t).Close
			},
		}
		rand.Shuffle(2, func(i, j int) { begin[i], begin[j] = begin[j], begin[i] })
		begin[0]()
		event.Fire(windows, 0, "only one")
		begin[1]()

		var fired sums
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for n := range fires {
					value, text := rand.Uint64(), fmt.Sprintf("%d-%06d", g, n)
					event.Fire(uint64(window), value, text)
					fired.add(value, text)
				}
			})
		}
		wg.Wait()
		if rand.IntN(2) == 0 {
			unobserve()
		}
		require.NoError(t, detach())
		unobserve()
		require.Equal(t, fired.Tally, seen.Tally, "observed in window %d", window)
		require.Equal(t, fired.Tally, tracetest.Must(counter.Tally(0, window))(t), "traced in window %d", window)
		require.NoError(t, p.Unload())
		require.NoError(t, p.Load())
	}
	require.NoError(t, stop())
	require.False(t, event.Enabled(), "all observers have gone")
}
