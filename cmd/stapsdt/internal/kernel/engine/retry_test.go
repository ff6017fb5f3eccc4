//go:build linux

package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/lease"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hurry makes everything due that was put off.
func hurry(e *Engine) { putOff(e, 0) }

// putOff makes what is put off due after a time.
func putOff(e *Engine, after time.Duration) {
	for _, f := range e.files {
		f.retry = time.Now().Add(after)
	}
}

// TestShortage: what fails because something is short is tried again, said once
// and as what it is, and attached to once in the end. That of one rule does not keep others waiting,
// where it can be told apart.
func TestShortage(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN} {
		for name, c := range map[string]struct {
			spoil func(w *world, s *subscriber, err error)
			alone bool // the shortage is that of one subscriber
		}{
			"tables":  {func(_ *world, s *subscriber, err error) { s.err = err }, true},
			"program": {func(w *world, _ *subscriber, err error) { w.loadErr = func(int) error { return err } }, false},
			"sites":   {func(w *world, _ *subscriber, err error) { w.attachErr = err }, false},
		} {
			for _, daemon := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", int(errno), " ", daemon), func(t *testing.T) {
					w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a", "b")}}}
					e := newEngine(t, w, Options{Daemon: daemon})
					s, other := subscribe(t, "app:*"), subscribe(t, "app:a")
					short, others := e.add(s), e.add(other)
					c.spoil(w, s, fmt.Errorf("load: %w", errno))
					for range 3 {
						require.NoError(t, e.scan())
						require.NoError(t, e.Settle(short))
						require.True(t, e.Short())
						require.Zero(t, short.Sites())
						require.Equal(t, c.alone, others.Sites() > 0)
						hurry(e)
					}
					want := []string{fmt.Sprintf("/app: load: %v; trying again", errno)}
					require.Equal(t, want, s.problems)
					if !c.alone {
						require.Equal(t, want, other.problems)
					}
					w.loadErr, w.attachErr, s.err = nil, nil, nil
					for range 2 {
						require.NoError(t, e.scan())
						require.False(t, e.Short())
						require.Equal(t, []int{2, 1}, []int{short.Sites(), others.Sites()})
						require.Equal(t, 3, w.attached())
					}
				})
			}
		}
	}
}

// TestRetry: an attempt is made after retryDelay and not before, and Run makes it.
func TestRetry(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}, attachErr: unix.EMFILE}
	e := newEngine(t, w, Options{Daemon: true})
	subscription := e.add(subscribe(t, "app:a"))
	e.watch() // so that it looks at the processes seldom
	start := time.Now()
	require.NoError(t, e.scan())
	for _, f := range e.files {
		require.WithinRange(t, f.retry, start.Add(retryDelay), time.Now().Add(retryDelay))
	}
	putOff(e, time.Hour)
	w.attachErr = nil
	require.NoError(t, e.scan())
	require.Zero(t, subscription.Sites(), "it is not due")
	putOff(e, 50*time.Millisecond)
	e.pace.rest = time.Hour // so that no other scan makes the attempt
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	require.NoError(t, e.Run(ctx, &consumer{next: 10 * time.Millisecond, tick: func(int) bool { return subscription.Sites() == 0 }}))
	require.Equal(t, 1, subscription.Sites(), "the attempt was not made")
}

// TestShortLook: processes that cannot be looked at for a shortage are said once, until they can.
func TestShortLook(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {}}, skipped: fmt.Errorf("opening /app: %w", unix.EMFILE)}
	e := newEngine(t, w, Options{})
	e.add(subscribe(t, "app:a"))
	for range 2 {
		require.NoError(t, e.scan())
		require.NoError(t, e.scan())
		w.skipped = nil
		require.NoError(t, e.scan())
		w.skipped = unix.EMFILE
	}
	require.Equal(t, []string{"opening /app: too many open files; trying again", "too many open files; trying again"}, w.problems)
	e.options.Named = []int{1}
	_, err := e.Scan()
	require.ErrorIs(t, err, unix.EMFILE, "a command begins with an error")
}

// TestCrowded: where descriptors are short, files that no process has mapped any longer make room at once, and only those.
func TestCrowded(t *testing.T) {
	old, kept := newFile("/old", "a"), newFile("/kept", "a")
	w := &world{mapped: map[int][]*target.File{1: {old}, 2: {kept}}}
	e := newEngine(t, w, Options{Daemon: true})
	subscription := e.add(subscribe(t, "app:a"))
	require.NoError(t, e.scan())
	delete(w.mapped, 1)
	require.NoError(t, e.scan())
	e.purge()
	require.Equal(t, 2, subscription.Sites(), "the next process of the file is to be counted from its first event on")

	w.mapped[3], w.attachErr = []*target.File{newFile("/new", "a")}, unix.EMFILE
	require.NoError(t, e.scan())
	e.purge()
	require.NotContains(t, e.files, old)
	require.Contains(t, e.files, kept)
	w.attachErr = nil
	hurry(e)
	require.NoError(t, e.scan())
	require.Equal(t, 2, subscription.Sites())
}

// TestRetryLook: processes that a shortage kept from being looked at are looked at again after retryDelay.
func TestRetryLook(t *testing.T) { synctest.Test(t, testRetryLook) }

func testRetryLook(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {}}, skipped: unix.EMFILE}
	e := newEngine(t, w, Options{Daemon: true})
	e.add(subscribe(t, "app:a"))
	require.NoError(t, e.scan())
	require.WithinRange(t, e.pace.due, time.Now(), time.Now().Add(retryDelay))
	e.pace, w.pending = pace{scanned: time.Now()}, []int{1}
	_, err := e.look()
	require.NoError(t, err)
	require.WithinRange(t, e.pace.due, time.Now(), time.Now().Add(retryDelay))
}

// TestPurge: links of processes that have ended are closed at the same time. A file that the last scan has found stays,
// however long the rest after the scan is.
func TestPurge(t *testing.T) { synctest.Test(t, testPurge) }

func testPurge(t *testing.T) {
	kept, ended := newFile("/kept", "a"), newFile("/ended", "a")
	w := &world{mapped: map[int][]*target.File{1: {kept}, 2: {ended}}}
	e := newEngine(t, w, Options{Daemon: true})
	e.add(subscribe(t, "app:a"))
	require.NoError(t, e.scan())
	var none *lease.Lease
	for pid := range 10 {
		e.files[kept].attachments[0].links[100+pid] = []*lease.Attachment{none.Keep(slowLink{})}
	}
	delete(w.mapped, 2)
	start := time.Now()
	e.purge()
	require.Equal(t, time.Second, time.Since(start))
	time.Sleep(2 * fileTTL)
	e.purge()
	require.Contains(t, e.files, kept)
	require.NoError(t, e.scan())
	e.purge()
	require.Contains(t, e.files, kept)
	require.NotContains(t, e.files, ended)
}

// slowLink is an attachment that takes a second to close.
type slowLink struct{}

func (slowLink) Close() error {
	time.Sleep(time.Second)
	return nil
}

// TestPutOff: a named process with a file that is put off has no probe yet, and keeps those of its other files.
func TestPutOff(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}}
	w.skipped = &target.PutOff{Path: "/slow", Err: stall.Err}
	e := newEngine(t, w, Options{Named: []int{1}})
	subscription := e.add(subscribe(t, "app:a"))
	require.NoError(t, e.scan())
	require.Equal(t, 1, subscription.Sites())
	require.True(t, e.Incomplete())
	w.skipped = nil
	require.NoError(t, e.scan())
	require.False(t, e.Incomplete())
	require.Empty(t, w.problems, "Skips has the message")
}
