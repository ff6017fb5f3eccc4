//go:build linux

package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// deliver delivers the results of the attempts that go on.
func (w *world) deliver(err error) {
	results := w.results
	w.results = nil
	for _, deliver := range results {
		deliver(err)
	}
}

// TestLateResult: where the kernel always takes longer than the engine waits, each probe is attached to
// nevertheless, by one attempt, and it is said once.
func TestLateResult(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a", "b")}, 2: {newFile("/other", "b")}}}
	e := newEngine(t, w, Options{})
	s := subscribe(t, "app:*")
	subscription := e.add(s)
	for _, sites := range []int{0, 2} {
		for range 2 {
			w.attachErr = stall.ErrLate
			require.NoError(t, e.scan())
			require.Equal(t, []int{sites, sites}, []int{subscription.Sites(), w.attached()})
			require.True(t, e.Short())
			hurry(e)
		}
		w.deliver(nil)
		require.NoError(t, e.adopt())
	}
	require.NoError(t, e.scan())
	require.Equal(t, []int{3, 3}, []int{subscription.Sites(), w.attached()})
	require.False(t, e.Short())
	require.Len(t, s.problems, 2)
}

// TestLateShortage: an attempt that fails late is made again.
func TestLateShortage(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}, attachErr: stall.ErrLate}
	e := newEngine(t, w, Options{})
	subscription := e.add(subscribe(t, "app:*"))
	require.NoError(t, e.scan())
	w.deliver(unix.ENOMEM)
	require.NoError(t, e.adopt())
	require.Zero(t, subscription.Sites())
	w.attachErr = nil
	require.NoError(t, e.scan())
	require.Zero(t, subscription.Sites(), "it is too early")
	hurry(e)
	require.NoError(t, e.scan())
	require.Equal(t, []int{1, 1}, []int{subscription.Sites(), w.attached()})
}

// TestLateUnwanted: what is no longer selected when the result comes does not stay attached.
func TestLateUnwanted(t *testing.T) {
	for name, end := range map[string]func(e *Engine, f *target.File, s *Subscription){
		"dropped":   func(e *Engine, f *target.File, _ *Subscription) { e.drop(e.files[f]) },
		"removed":   func(e *Engine, _ *target.File, s *Subscription) { e.Remove(s) },
		"withdrawn": func(e *Engine, _ *target.File, _ *Subscription) { _ = e.Withdraw(map[string]bool{probeKey("a"): true}) },
		"detached":  func(e *Engine, _ *target.File, _ *Subscription) {},
		"moved": func(e *Engine, f *target.File, _ *Subscription) {
			f.Moves = errors.New("it moves its code")
			hurry(e)
			require.NoError(t, e.scan())
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile("/app", "a")
			w := &world{mapped: map[int][]*target.File{1: {f}}, attachErr: stall.ErrLate, everywhere: true}
			e := newEngine(t, w, Options{})
			subscription := e.add(subscribe(t, "app:*"))
			require.NoError(t, e.scan())
			end(e, f, subscription)
			w.deliver(nil)
			require.Equal(t, 1, w.attached())
			if name == "detached" {
				require.NoError(t, e.Detach())
			} else {
				require.NoError(t, e.adopt())
			}
			require.Zero(t, w.attached())
			require.Zero(t, subscription.Sites())
		})
	}
}

// TestLateError: an error of one result does not keep the others from being recorded, and what comes
// after the end is detached at once.
func TestLateError(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}, 2: {newFile("/other", "a")}, 3: {newFile("/last", "a")}}, attachErr: stall.ErrLate}
	e := newEngine(t, w, Options{})
	subscription := e.add(subscribe(t, "app:*"))
	require.NoError(t, e.scan())
	for i, err := range []error{errRefused, nil} {
		w.results[i](err)
	}
	require.ErrorIs(t, e.adopt(), errRefused)
	require.Equal(t, []int{1, 1}, []int{subscription.Sites(), w.attached()})
	require.NoError(t, e.Detach())
	w.results[2](nil)
	require.Zero(t, w.attached())
	require.Empty(t, e.late)
}

// TestLateRestore: a probe that is attached to late when it is restored stays attached, and so do the
// others of the file, after it.
func TestLateRestore(t *testing.T) {
	f := newFile("/app", "a", "b")
	w := &world{perFile: true, mapped: map[int][]*target.File{1: {f}}}
	e := newEngine(t, w, Options{})
	subscription := e.add(subscribe(t, "app:*"))
	require.NoError(t, e.scan())
	keys := map[string]bool{probeKey("a"): true, probeKey("b"): true}
	require.NoError(t, e.WithdrawFrom(f, keys))
	require.Zero(t, w.attached())
	w.attachErr = stall.ErrLate
	require.NoError(t, e.Restore(f, keys))
	require.Zero(t, subscription.Sites())
	w.deliver(nil)
	require.NoError(t, e.adopt())
	require.NoError(t, e.scan())
	require.Equal(t, []int{2, 2}, []int{subscription.Sites(), w.attached()})
	require.Len(t, w.order, 4)
	require.NoError(t, e.WithdrawFrom(f, keys))
	require.Zero(t, w.attached())

	w.attachErr = unix.ENOMEM
	require.NoError(t, e.Restore(f, keys))
	w.attachErr = nil
	hurry(e)
	require.NoError(t, e.scan())
	require.Equal(t, []int{2, 2}, []int{subscription.Sites(), w.attached()})
}

// TestLateRun: Run adopts a result as soon as it comes.
func TestLateRun(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}, attachErr: stall.ErrLate}
	e := newEngine(t, w, Options{Daemon: true})
	subscription := e.add(subscribe(t, "app:a"))
	require.NoError(t, e.scan())
	e.pace.rest = time.Hour // so that no scan comes in its place
	putOff(e, time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	require.NoError(t, e.Run(ctx, &consumer{next: 10 * time.Millisecond, tick: func(n int) bool {
		if n == 1 {
			go w.deliver(nil)
		}
		return subscription.Sites() == 0
	}}))
	require.NoError(t, ctx.Err())
	require.Equal(t, 1, subscription.Sites())
}
