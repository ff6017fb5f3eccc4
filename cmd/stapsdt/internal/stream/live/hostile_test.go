//go:build linux

package live

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/stretchr/testify/require"
)

// TestHangingWatch: programs that answer until they are to be watched delay no other, and are named when their time is over.
func TestHangingWatch(t *testing.T) {
	dir := fakes(t)
	for pid := range 20 {
		(&fake{deaf: wire.KindWatch}).listen(t, dir, fakePID+pid)
	}
	(&fake{}).listen(t, dir, fakePID+1000)
	late := -1 // how many had let their time pass when the one that answers was watched
	_, said := runAll(t, func(f *Feed) bool {
		if late < 0 && f.count(watched) == 1 {
			late = len(f.refused)
		}
		return len(f.refused) == 20
	})
	require.Zero(t, late)
	require.Equal(t, 1, said.count("process 5000007 of another PID namespace: it has not answered within 2s"))
}

// TestRefusedOnce: a program that is busy is named once, and watched when it no longer is.
func TestRefusedOnce(t *testing.T) {
	dir := fakes(t)
	busy := &fake{refusal: wire.KindWatch}
	busy.grants.Store(2)
	busy.listen(t, dir, fakePID)
	began := time.Now()
	_, said := runAll(t, func(f *Feed) bool { return f.count(watched) == 1 })
	require.Greater(t, time.Since(began), 2*time.Second, "it was left alone for 1 s, and for 2 s")
	require.Equal(t, 1, said.count("process 5000000 of another PID namespace: 8 processes watch it already"))
	require.Zero(t, said.count("listens yet"), "one does")
}

// TestListRefused: an Error in place of the list is what the user is told.
func TestListRefused(t *testing.T) {
	dir := fakes(t)
	busy := &fake{refusal: wire.KindList}
	busy.grants.Store(1)
	busy.listen(t, dir, fakePID)
	_, said := runAll(t, func(f *Feed) bool { return f.count(watched) == 1 })
	require.Equal(t, 1, said.count("8 processes watch it already"))
}

// TestWatchLate: a program that takes its time to be watched is watched from then on.
func TestWatchLate(t *testing.T) {
	dir := fakes(t)
	slow := &fake{late: make(chan struct{})}
	slow.listen(t, dir, fakePID)
	looks := 0 // since it was asked
	_, said := runAll(t, func(f *Feed) bool {
		if slow.watched.Load() > 0 {
			if looks++; looks == 10 {
				close(slow.late)
			}
		}
		return f.count(watched) == 1
	})
	require.GreaterOrEqual(t, looks, 10)
	require.Zero(t, said.count("of another PID namespace"))
}

// TestArrivalsAfterEnd: answers that come when a feed has ended leave neither goroutines nor connections.
func TestArrivalsAfterEnd(t *testing.T) {
	dir := fakes(t)
	for pid := range 20 {
		(&fake{deaf: wire.KindWatch}).listen(t, dir, fakePID+pid)
	}
	runAll(t, func(*Feed) bool { return true })
	left := func() string {
		stacks := make([]byte, 1<<20)
		return string(stacks[:runtime.Stack(stacks, true)])
	}
	require.Eventually(t, func() bool { return !strings.Contains(left(), "(*Feed)") }, testenv.Patience, 50*time.Millisecond)
}

// watchMany watches programs, each of which is asked once and answers.
func watchMany(t *testing.T, programs int) {
	dir := fakes(t)
	all := make([]fake, programs)
	for i := range all {
		all[i].listen(t, dir, fakePID+i)
	}
	_, said := runAll(t, func(f *Feed) bool { return f.count(watched) == programs })
	require.Zero(t, said.count("of another PID namespace"))
	for i := range all {
		require.EqualValues(t, 1, all[i].watched.Load())
	}
}

// TestHundred: many programs are watched, and each is asked once.
func TestHundred(t *testing.T) { watchMany(t, 100) }

// TestThousand measures how long a user waits for many programs.
func TestThousand(t *testing.T) {
	testenv.Measures(t, "the time to watch 1,000 programs")
	began := time.Now()
	watchMany(t, 1000)
	testenv.Figure(t, "watching 1,000 programs", time.Since(began).Seconds(), 10, "s")
}

// TestRefusals: the times double up to a minute, and brief processes are forgotten.
func TestRefusals(t *testing.T) {
	r, now := refusals{}, time.Unix(1000, 0)
	k := (&socket.Process{PID: 1, Start: 2}).Key()
	require.True(t, r.add(k, now))
	require.True(t, r.has(k, now.Add(time.Second-1)))
	require.False(t, r.has(k, now.Add(time.Second)))
	require.False(t, r.due(now))
	require.True(t, r.due(now.Add(time.Second)))
	for range 10 {
		require.False(t, r.add(k, now))
	}
	require.True(t, r.has(k, now.Add(time.Minute-1)))
	require.False(t, r.has(k, now.Add(time.Minute)))
	r.purge([]*socket.Process{{PID: 1, Start: 2}}, now.Add(61*time.Second))
	require.Len(t, r, 1)
	r.purge([]*socket.Process{{PID: 1, Start: 3}}, now.Add(61*time.Second))
	require.Empty(t, r, "another process has its PID")
}
