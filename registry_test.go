//go:build linux && (amd64 || arm64) && !stapsdt_noload

package stapsdt

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aside takes the providers of other tests out of the registry, until the test
// ends.
func aside(t testing.TB) {
	others := providers.reachable(true)
	for _, p := range others {
		providers.leave(p.record)
	}
	t.Cleanup(func() {
		providers.mu.Lock()
		defer providers.mu.Unlock()
		for _, p := range others {
			p.record.waiting = true
		}
	})
}

// waiting counts the records of providers that wait for LoadAll. Those of unreachable providers are among them until their
// cleanups have run, so a test must wait for the collector before the number means anything: see collected.
func waiting() (n int) {
	providers.mu.Lock()
	defer providers.mu.Unlock()
	for e := providers.open.Front(); e != nil; e = e.Next() {
		if e.Value.(*record).waiting {
			n++
		}
	}
	return n
}

func closeAll(t testing.TB, list ...*Provider) {
	for _, p := range list {
		require.NoError(t, p.Close())
	}
}

func TestLoadAll(t *testing.T) {
	aside(t)
	fresh := newProvider(t, "fresh")
	failing := NewProvider("failing", WithDir(t.TempDir()+"/images"))
	bad := NewProbe0(failing, "b:d")
	later := newProvider(t, "later")
	unloaded, loaded, closed := newProvider(t, "unloaded"), newProvider(t, "loaded"), newProvider(t, "closed")
	t.Cleanup(func() { closeAll(t, fresh, failing, later, unloaded, loaded, closed) })
	require.NoError(t, unloaded.Load())
	require.NoError(t, unloaded.Unload())
	require.NoError(t, loaded.Load())
	require.NoError(t, closed.Close())
	require.ErrorIs(t, failing.Load(), ErrName)

	for range 2 { // a provider whose Load failed was never loaded
		err := LoadAll()
		require.ErrorIs(t, err, ErrName)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "failing", e.Provider)
		require.Equal(t, bad.Name(), e.Probe)
		require.Equal(t, 1, strings.Count(err.Error(), "stapsdt:"), "the error of one provider\n%v", err)
		require.True(t, fresh.Loaded())
		require.True(t, later.Loaded(), "after one that failed")
		require.True(t, loaded.Loaded())
		require.False(t, unloaded.Loaded(), "it was unloaded on purpose")
		require.False(t, closed.Loaded())
	}
	require.NoError(t, fresh.Unload())
	require.NoError(t, failing.Close())
	require.NoError(t, LoadAll())
	require.False(t, fresh.Loaded())
	require.Empty(t, providers.reachable(true), "a provider still waits for LoadAll")
}

// TestLoadAllOrder: providers are loaded in the order of their definition, also those
// that have failed before; so it is the second of two that exclude each other
// which fails.
func TestLoadAllOrder(t *testing.T) {
	aside(t)
	var list []*Provider
	for i := range 20 {
		p := newProvider(t, fmt.Sprint("order", i))
		if i%3 == 0 {
			NewProbe0(p, "")
			require.Error(t, p.Load())
		}
		list = append(list, p)
	}
	t.Cleanup(func() { closeAll(t, list...) })
	require.Equal(t, list, providers.reachable(true))
	var failed []string
	var joined interface{ Unwrap() []error }
	require.ErrorAs(t, LoadAll(), &joined)
	for _, err := range joined.Unwrap() {
		failed = append(failed, err.(*Error).Provider)
	}
	require.Equal(t, []string{"order0", "order3", "order6", "order9", "order12", "order15", "order18"}, failed)
	closeAll(t, list...)

	for range 10 {
		first, second := newProvider(t, "pair"), newProvider(t, "pair")
		NewProbe1[int](first, "event")
		NewProbe1[string](second, "event")
		require.ErrorIs(t, LoadAll(), ErrConflict)
		require.True(t, first.Loaded())
		require.False(t, second.Loaded())
		closeAll(t, first, second)
	}
}

// TestLoadAllConcurrently: several LoadAlls, with all else that providers do.
func TestLoadAllConcurrently(t *testing.T) {
	aside(t)
	dir := t.TempDir() + "/images"
	const rounds = 200
	problems := make(chan error, 2*rounds+2)
	var defined atomic.Int32
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for defined.Load() < 2*rounds {
				if err := LoadAll(); err != nil {
					problems <- err
					return
				}
			}
		})
		wg.Go(func() {
			for i := range rounds {
				defined.Add(1)
				p := NewProvider("concurrent", WithDir(dir))
				probe := NewProbe1[int](p, "event")
				if err := p.Load(); err != nil && !errors.Is(err, ErrLoaded) {
					problems <- err
				}
				probe.Fire(1)
				if i%2 == 0 {
					p.Unload()
				}
				if i%4 < 2 {
					p.Close()
				}
				if i%16 == 0 {
					runtime.GC()
				}
			}
		})
	}
	wg.Wait()
	close(problems)
	for err := range problems {
		assert.NoError(t, err)
	}
	collected(t, func() bool { return waiting() == 0 && claims("concurrent") == 0 })
}

// collected waits for the garbage collector's work.
func collected(t testing.TB, done func() bool) {
	t.Helper()
	require.Eventually(t, func() bool { runtime.GC(); return done() }, testenv.Patience, time.Millisecond)
}

// TestProviders: every provider that is not closed is listed, whatever its state, and none is
// kept alive.
func TestProviders(t *testing.T) {
	listed := func(p *Provider) bool { return slices.Contains(Providers(), p) }
	first, second, closed := newProvider(t, "first"), newProvider(t, "second"), newProvider(t, "closed")
	t.Cleanup(func() { closeAll(t, first, second) })
	closeAll(t, closed)
	require.NoError(t, second.Load())
	require.NoError(t, first.Load())
	require.NoError(t, first.Unload())
	all := Providers()
	require.NotContains(t, all, closed)
	i, j := slices.Index(all, first), slices.Index(all, second)
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, i+1, j, "in the order of their definition")

	lost := weak.Make(newProvider(t, "lost"))
	require.Eventually(t, func() bool { runtime.GC(); return lost.Value() == nil }, testenv.Patience, time.Millisecond)
	count := func() int {
		providers.mu.Lock()
		defer providers.mu.Unlock()
		return providers.open.Len()
	}
	require.Eventually(t, func() bool { runtime.GC(); return count() == len(Providers()) }, testenv.Patience, time.Millisecond)
	closeAll(t, first)
	require.False(t, listed(first))
	require.True(t, listed(second))
}
