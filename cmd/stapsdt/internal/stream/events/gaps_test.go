package events

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"

	"github.com/stretchr/testify/require"
)

// TestGaps: what is missing of each pod is counted: events that were lost, also by one that was left, and the times when a pod that ran was
// not watched.
func TestGaps(t *testing.T) {
	before, again, other := newFakePod(t, "a", 1<<20), newFakePod(t, "a", 1<<20), newFakePod(t, "b", 1<<20)
	pods := &fakePods{updates: make(chan replay.Update), stopped: make(chan struct{})}
	before.DropSome(3)
	pods.first = []replay.Update{before.frame(), other.frame()}
	var said bytes.Buffer
	to := &console.Console{Out: &said, Err: &said}
	s, err := Open(to, &query.Config{Specs: querytest.Specs("shop:*")}, Options{From: replay.From{Replicas: pods}})
	require.NoError(t, err)
	defer s.Close()
	seen := &seenEvents{changed: make(chan struct{}, 100), gone: make(chan string, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- s.Run(ctx, seen) }()
	last := before.frame()
	pods.send(last)
	pods.send(replay.Update{Replica: before.Replica, Unwatched: true})
	for gone := false; !gone; {
		select {
		case <-seen.gone:
			gone = true
		case <-time.After(time.Millisecond):
			pods.send(other.frame())
		}
	}
	again.DropSome(4)
	first := again.frame()
	pods.send(first)
	cancel()
	<-pods.stopped
	pods.send(again.rest()...)
	pods.send(replay.Update{Replica: other.Replica, Unwatched: true})
	close(pods.updates)
	require.NoError(t, <-ran)

	losses := s.Losses()
	a, b := render.PodName{Namespace: "default", Pod: "a", Container: "app"}, render.PodName{Namespace: "default", Pod: "b", Container: "app"}
	require.EqualValues(t, 7, losses.Lost)
	require.Equal(t, []replay.PodLoss{{PodName: a, Lost: 7}}, losses.Pods)
	require.Len(t, losses.Unwatched, 2)
	_, settled := last.Frame.Looked()
	_, begins := first.Frame.Looked()
	gap := losses.Unwatched[0]
	require.Equal(t, a, gap.PodName)
	require.Equal(t, int64(settled-settleTime), gap.From.UnixNano())
	require.Equal(t, int64(begins), gap.To.UnixNano())
	for _, at := range []time.Time{gap.From, gap.To} {
		require.Equal(t, time.UTC, at.Location())
	}
	require.Equal(t, b, losses.Unwatched[1].PodName)
	require.False(t, losses.Unwatched[1].To.IsZero(), "until the end")
	require.Equal(t, losses, s.Losses(), "the end stays")
	require.NoError(t, s.Report("", 0))
	require.Contains(t, said.String(), "stapsdt: default/a was not watched from ")
	require.Contains(t, said.String(), "stapsdt: default/b was not watched from ")
}
