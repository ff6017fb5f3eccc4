//go:build linux && (amd64 || arm64)

package main

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

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

// watcher reads a site's first byte all the time, from a thread of its own.
type watcher struct {
	state atomic.Int32
	over  atomic.Bool
	reads atomic.Int64
	wg    sync.WaitGroup

	// To be read when it has been stopped.
	wrong int
	seen  map[byte]bool
}

func watch(t *T, b *built) *watcher {
	w := &watcher{seen: map[byte]bool{}}
	w.wg.Go(func() {
		for !w.over.Load() {
			state := w.state.Load()
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

// enter tells the state that the site is in now, and returns when the watcher has
// read the site in it: on one processor it would else hardly ever come to that.
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

// siteChanges watches a site while a tracer attaches, the kernel optimises what
// it wrote there, and the tracer detaches: at no moment of that may an attached
// site read as idle, or a detached one as patched.
func siteChanges(t *T) {
	const changes, fires = 10, 20
	for _, kind := range image.Host().Sites {
		b := buildSite(t, &kind)
		if c, err := b.count(t); err != nil {
			continue // attachableSites says whether that is right
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
			w.enter(attached) // what was fired may have been optimised
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
		t.Notef("%s % x", kind.Name, seen)
	}
}
