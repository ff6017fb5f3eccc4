//go:build linux && (amd64 || arm64) && !stapsdt_noload

package stapsdt

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// claims counts the loaded providers of a name.
func claims(name string) int {
	providers.mu.Lock()
	defer providers.mu.Unlock()
	all := providers.loaded[name]
	if all == nil {
		return 0
	}
	owners, shares := 0, 0
	for _, s := range all.shared {
		owners += s.owners
	}
	for e := all.records.Front(); e != nil; e = e.Next() {
		shares += len(e.Value.(*record).shares)
	}
	if all.records.Len() == 0 || owners != shares {
		panic("an entry is left")
	}
	return all.records.Len()
}

// TestConflict: a tracer cannot tell two providers of one name apart, so a probe
// of both must have the same arguments, while both are loaded.
func TestConflict(t *testing.T) {
	dir := WithDir(t.TempDir() + "/images")
	_, file, line, _ := runtime.Caller(0)
	first := NewProvider("conflict", dir)
	second := NewProvider("conflict", dir)
	NewProbe2[string, int32](first, "same")
	NewProbe1[string](first, "event")
	NewProbe2[string, int32](second, "same")
	event := NewProbe1[uint64](second, "event")
	NewProbe0(second, "other")

	require.NoError(t, first.Load())
	for range 2 {
		err := second.Load()
		require.ErrorIs(t, err, ErrConflict)
		requireOneLine(t, err)
		require.Equal(t, fmt.Sprintf("stapsdt: load conflict:event: conflicting arguments: the probe has the arguments [uint64], "+
			"but [string] in the loaded provider of the same name defined at %s:%d", file, line+1), err.Error())
		require.False(t, second.Loaded())
		require.Equal(t, 1, claims("conflict"))
	}
	require.NoError(t, first.Unload())
	require.NoError(t, second.Load(), "only what is loaded counts")
	err := first.Load()
	require.ErrorIs(t, err, ErrConflict)
	require.Contains(t, err.Error(), fmt.Sprintf("at %s:%d", file, line+2))
	event.Fire(1)

	third := newProvider(t, "conflict") // another probe has no conflict
	NewProbe1[uint64](third, "third")
	require.NoError(t, third.Load())
	NewProbe1[string](third, "event") // it is no part of it yet
	require.NoError(t, second.Close())
	require.NoError(t, first.Load())
	closeAll(t, third, first)
	require.Zero(t, claims("conflict"))
}

// TestConcurrentConflict: of providers that exclude each other and are loaded at
// once, one is loaded.
func TestConcurrentConflict(t *testing.T) {
	dir := t.TempDir() + "/images"
	for range 50 {
		list := make([]*Provider, 8)
		for i := range list {
			list[i] = NewProvider("race", WithDir(dir))
			list[i].AddProbe("event", slices.Repeat([]ArgType{Int64}, i)...)
		}
		var wg sync.WaitGroup
		errs := make([]error, len(list))
		start := make(chan struct{})
		for i, p := range list {
			wg.Go(func() { <-start; errs[i] = p.Load() })
		}
		close(start)
		wg.Wait()
		won := 0
		for i, p := range list {
			if errs[i] == nil {
				won++
			} else {
				require.ErrorIs(t, errs[i], ErrConflict)
			}
			require.Equal(t, errs[i] == nil, p.Loaded())
		}
		require.Equal(t, 1, won)
		closeAll(t, list...)
	}
}

// TestNameConflict: the arguments of a probe of two loaded providers must also have
// the same names, unless one of the probes has none.
func TestNameConflict(t *testing.T) {
	dir := WithDir(t.TempDir() + "/images")
	first, same, none, other := NewProvider("named", dir), NewProvider("named", dir), NewProvider("named", dir), NewProvider("named", dir)
	_, file, line, _ := runtime.Caller(0)
	NewProbe2[int8, string](first, "event", "a", "b")
	NewProbe2[int8, string](same, "event", "a", "b")
	NewProbe2[int8, string](none, "event")
	NewProbe2[int8, string](other, "event", "a", "c")
	require.NoError(t, first.Load())
	require.NoError(t, same.Load())
	require.NoError(t, none.Load())
	err := other.Load()
	require.ErrorIs(t, err, ErrConflict)
	require.EqualError(t, err, fmt.Sprintf("stapsdt: load named:event: conflicting arguments: the probe has the arguments [a c], "+
		"but [a b] in the loaded provider of the same name defined at %s:%d", file, line-1))
	closeAll(t, first, same)
	require.NoError(t, other.Load())
	closeAll(t, none, other)
}

// TestNameConflictAfterUnload: only what is loaded counts, however many providers of the name were loaded before.
func TestNameConflictAfterUnload(t *testing.T) {
	dir := WithDir(t.TempDir() + "/images")
	var all []*Provider
	load := func(probe string, names ...string) (*Provider, error) {
		p := NewProvider("again", dir)
		NewProbe2[int8, string](p, probe, names...)
		all = append(all, p)
		return p, p.Load()
	}
	none, err := load("event")
	require.NoError(t, err)
	for _, second := range []string{"a", "b", "c"} {
		named, err := load("event", "id", second)
		require.NoError(t, err)
		_, err = load("event", "id", "other")
		require.ErrorIs(t, err, ErrConflict)
		_, err = load("another", "id", "other")
		require.NoError(t, err)
		require.NoError(t, all[len(all)-1].Unload())
		require.NoError(t, named.Unload())
		require.Equal(t, 1, claims("again"))
	}
	NewProbe2[int8, string](none, "event", "late", "names") // another site, which is not loaded, names both
	_, err = load("event", "id", "other")
	require.ErrorIs(t, err, ErrConflict)
	_, err = load("event", "late", "names")
	require.NoError(t, err)
	closeAll(t, all...)
	require.Zero(t, claims("again"))
}

// TestFailedLoadFreesItsName: a provider whose Load failed, for whatever reason, does not keep another one of the same name, with other
// arguments, from loading.
func TestFailedLoadFreesItsName(t *testing.T) {
	nowhere, wrong, other := NewProvider("failed", WithDir("/proc/self")), newProvider(t, "failed"), newProvider(t, "failed")
	NewProbe1[int](nowhere, "event")
	NewProbe1[int](wrong, "event")
	NewProbe0(wrong, "b:d")
	NewProbe1[string](other, "event")
	require.ErrorIs(t, nowhere.Load(), ErrPlace)
	require.ErrorIs(t, wrong.Load(), ErrName)
	require.Zero(t, claims("failed"))
	load(t, other)
	require.Equal(t, 1, claims("failed"))
	closeAll(t, nowhere, wrong)
}
