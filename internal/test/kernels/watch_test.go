//go:build linux && (amd64 || arm64)

package kernels

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/image"

	"github.com/stretchr/testify/require"
)

// The states of a site that is watched. While it changes it may read as either.
const (
	changing = iota
	attached
	detached
)

// watcher reads the first byte of a site all the time, in a goroutine of its own.
type watcher struct {
	state atomic.Int32
	over  atomic.Bool
	reads atomic.Int64
	wg    sync.WaitGroup

	// For the test to read after stop.
	wrong int
	seen  map[byte]bool
}

func watch(t *testing.T, b *built) *watcher {
	w := &watcher{seen: map[byte]bool{}}
	w.wg.Go(func() {
		for !w.over.Load() {
			state := w.state.Load()
			// SAFETY: the site is mapped until the test ends, and stop comes before.
			first := *(*byte)(b.at)
			patched := first&call.Mask == call.Bits
			w.seen[first] = true
			// Otherwise the state changed meanwhile.
			if w.state.Load() == state && (state == attached && !patched || state == detached && patched) {
				w.wrong++
			}
			if w.reads.Add(1)%64 == 0 {
				runtime.Gosched() // there may be one processor
			}
		}
	})
	t.Cleanup(w.stop) // before the site is unmapped
	return w
}

// enter tells the watcher which state the site is in, and returns when it has read
// the site in that state. On a single processor it would hardly ever do so by
// chance.
func (w *watcher) enter(state int32) {
	w.state.Store(state)
	for n := w.reads.Load(); w.reads.Load() < n+2; {
		runtime.Gosched()
	}
}

func (w *watcher) stop() {
	w.over.Store(true)
	w.wg.Wait()
}

// TestSiteChanges watches a site while a tracer attaches, the kernel optimizes what
// it wrote there, and the tracer detaches. At no moment may an attached site read
// as idle, or a detached one as patched.
func TestSiteChanges(t *testing.T) {
	const changes, fires = 10, 20
	for _, kind := range image.Host().Nops {
		b := buildSite(t, &kind)
		if c, err := b.count(t); err != nil {
			continue // TestSiteBytes says whether that is right
		} else {
			require.NoError(t, c.Close())
		}
		w := watch(t, b)
		for range changes {
			c, err := b.count(t)
			require.NoError(t, err)
			w.enter(attached)
			for range fires {
				b.fire()
			}
			w.enter(attached) // the fires may have had the kernel optimize the site
			requireCount(t, c, fires)
			w.state.Store(changing)
			require.NoError(t, c.Close())
			w.enter(detached)
			w.state.Store(changing)
		}
		w.stop()
		seen := slices.Sorted(maps.Keys(w.seen))
		require.Zero(t, w.wrong, "of %d reads of %s, which saw % x", w.reads.Load(), kind.Name, seen)
		require.Greater(t, len(seen), 1, "%s was not seen to change: % x", kind.Name, seen)
		t.Logf("%s % x", kind.Name, seen)
	}
}
