//go:build linux

package engine

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"

	"github.com/stretchr/testify/require"
)

// probeKey returns the key of a probe of newFile.
func probeKey(name string) string {
	return (&bpf.Probe{Provider: "app", Name: name}).Key()
}

// TestWithdraw: what is withdrawn is detached from everywhere and stays so, in files and processes that are
// found later too. The others stay attached.
func TestWithdraw(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a", "b")}, 2: {newFile("/app2", "a")}}}
	e := newEngine(t, w, Options{})
	kernel := &withdrawing{world: w, engine: e}
	e.kernel = kernel
	subscription := e.add(subscribe(t, "app:*"))
	require.NoError(t, e.scan())
	require.Equal(t, 3, subscription.Sites())
	require.NoError(t, e.Withdraw(map[string]bool{probeKey("a"): true}))
	require.Equal(t, 1, subscription.Sites())
	require.Equal(t, 1, w.attached())

	w.mapped[3] = []*target.File{newFile("/app3", "a", "b")}
	before := kernel.calls
	require.NoError(t, e.scan())
	require.Equal(t, 1, kernel.calls-before, "it is not attached for a moment either")
	require.Equal(t, 2, subscription.Sites())
	require.Equal(t, 2, w.attached())
	require.NoError(t, e.Detach())
	require.Zero(t, w.attached(), "each link is closed once")
	require.Zero(t, subscription.Sites())
}

// withdrawing withdraws a probe in one of the calls of Attach, which it counts.
type withdrawing struct {
	*world
	engine *Engine
	calls  int
	at     int // or 0
}

func (k *withdrawing) Attach(p Program, f *target.File, sites []Site, pid int, late func(Links, error)) (Links, error) {
	if k.calls++; k.calls == k.at {
		if err := k.engine.Withdraw(map[string]bool{probeKey("a"): true}); err != nil {
			return nil, err
		}
	}
	return k.world.Attach(p, f, sites, pid, late)
}

// TestWithdrawWhileAttaching: a program can be withdrawn while it is being attached to another file.
func TestWithdrawWhileAttaching(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}, 2: {newFile("/app2", "a", "b")}}}
	e := newEngine(t, w, Options{})
	e.kernel = &withdrawing{world: w, engine: e, at: 2}
	subscription := e.add(subscribe(t, "app:*"))
	require.NoError(t, e.scan())
	require.Equal(t, 1, subscription.Sites())
	require.Equal(t, 1, w.attached())
}

// TestWithdrawFrom: what is withdrawn from one file stays attached in others. It is attached again when
// it is restored, but not for a subscription that comes before. A dropped file has no programs.
func TestWithdrawFrom(t *testing.T) {
	one, two := newFile("/app", "a", "b"), newFile("/app2", "a")
	w := &world{perFile: true, mapped: map[int][]*target.File{1: {one}, 2: {two}}}
	var found []int
	e := newEngine(t, w, Options{Found: func(f *probes.Found, all bool) {
		require.True(t, all)
		for _, file := range f.Files {
			found = append(found, f.Uses[file][0].PID)
		}
	}})
	first := e.add(subscribe(t, "app:*"))
	require.NoError(t, e.scan())
	require.Equal(t, []int{1, 2}, found)
	require.Len(t, w.loaded, 3)
	keys := map[string]bool{probeKey("a"): true}
	require.NoError(t, e.WithdrawFrom(one, keys))
	require.Equal(t, 2, first.Sites())
	require.Equal(t, 2, w.attached())

	second := e.add(subscribe(t, "app:a"))
	require.NoError(t, e.scan())
	require.Equal(t, 1, second.Sites(), "in the other file")
	require.Equal(t, 3, w.attached())

	require.NoError(t, e.Restore(one, keys))
	require.Equal(t, []int{3, 2}, []int{first.Sites(), second.Sites()})
	require.Equal(t, 5, w.attached())
	require.NoError(t, e.WithdrawFrom(one, keys))
	require.Equal(t, 3, w.attached())

	require.True(t, e.Holds(one))
	e.drop(e.files[one])
	require.False(t, e.Holds(one))
	require.Equal(t, 2, w.attached())
	open := 0
	for _, p := range w.loaded {
		if !p.closed {
			open++
		}
	}
	require.Equal(t, 2, open)
	require.NoError(t, e.WithdrawFrom(one, keys))
	require.NoError(t, e.Restore(one, keys))
	require.Equal(t, 2, w.attached())
}
