package events

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakePod is a pod whose machine was booted long after another, and fires events when it is told.
type fakePod struct {
	*replay.Replica
	*recorder.Writer
	t      *testing.T
	sender *mirror.Sender
	out    bytes.Buffer
	number uint32
}

func newFakePod(t *testing.T, name string, size int64) *fakePod {
	chunks := recorder.Chunks(size)
	p := &fakePod{t: t, Replica: &replay.Replica{Name: "default/" + name, Bytes: recorder.Size(chunks)}}
	p.Pod = &recording.Pod{Namespace: "default", Name: name, Container: "app"}
	p.Writer = recorder.New(make([]byte, p.Replica.Bytes), chunks, recorder.Options{Foreign: true})
	var ok bool
	p.number, ok = p.AddProbe(&recording.Probe{Provider: "shop", Name: "done", Args: []recording.Arg{{Name: "n", Kind: kind.Uint64, Type: 8}}})
	require.True(t, ok)
	var err error
	p.sender, err = mirror.NewSender(&p.out, p.Writer)
	require.NoError(t, err)
	return p
}

// fire fires an event a while ago.
func (p *fakePod) fire(n uint64, ago time.Duration) {
	p.AppendForeign(p.number, p.Now()-uint64(ago), 7, 8, []uint64{n}, nil)
}

// frame returns an update with what was fired until now.
func (p *fakePod) frame() replay.Update {
	_, err := p.sender.Send()
	require.NoError(p.t, err)
	f, err := mirror.Read(&p.out)
	require.NoError(p.t, err)
	return replay.Update{Replica: p.Replica, Frame: f}
}

// rest returns the last updates.
func (p *fakePod) rest() (all []replay.Update) {
	p.Writer.Close()
	ended := make(chan struct{})
	close(ended)
	require.NoError(p.t, p.sender.Run(ended))
	for {
		f, err := mirror.Read(&p.out)
		if err == io.EOF {
			return all
		}
		require.NoError(p.t, err)
		all = append(all, replay.Update{Replica: p.Replica, Frame: f})
	}
}

// fakePods plays the updates of pods.
type fakePods struct {
	first   []replay.Update
	updates chan replay.Update
	config  *query.Config
	stopped chan struct{}
	closed  bool
}

func (f *fakePods) Record(_ *console.Console, c *query.Config) ([]replay.Update, <-chan replay.Update, error) {
	f.config = c
	return f.first, f.updates, nil
}

// send sends updates.
func (f *fakePods) send(all ...replay.Update) {
	for _, u := range all {
		f.updates <- u
	}
}

func (f *fakePods) Stop()  { close(f.stopped) }
func (f *fakePods) Close() { f.closed = true }

// seenEvents is a Consumer that keeps events, and ends after a number of them.
type seenEvents struct {
	all     []string
	at      []int64
	changed chan struct{} // has an element after each event
	gone    chan string
}

func (s *seenEvents) Event(e *Event) error {
	s.all, s.at = append(s.all, fmt.Sprintf("%s %d %d", e.Pod.Name, e.PID, e.Word(0))), append(s.at, e.Realtime)
	s.changed <- struct{}{}
	return nil
}
func (s *seenEvents) Tick() (time.Duration, bool, error) { return query.Rest, true, nil }
func (s *seenEvents) Know(*recording.Probe)              {}
func (s *seenEvents) Gone(f *replay.File)                { s.gone <- f.Path }

// TestReplicas: the events of pods are delivered in the order of the time of day once those of all pods have come until then. The condition is
// the pods'. A pod that has ended is removed; those that end when the run is stopped are kept for the result.
func TestReplicas(t *testing.T) {
	a, b, late := newFakePod(t, "a", 1<<20), newFakePod(t, "b", 1<<20), newFakePod(t, "late", 1<<20)
	pods := &fakePods{updates: make(chan replay.Update), stopped: make(chan struct{})}
	a.fire(1, 3*time.Second)
	pods.first = []replay.Update{a.frame(), b.frame()}
	var said bytes.Buffer
	config := &query.Config{Specs: querytest.Specs("shop:*"), Where: "n < 9"}
	s, err := Open(&console.Console{Out: &said, Err: &said}, config, Options{From: replay.From{Replicas: pods}})
	require.NoError(t, err)
	require.True(t, s.Live)
	require.True(t, s.Pods)
	require.Equal(t, config, pods.config)
	require.Len(t, s.Probes(), 2)
	seen := &seenEvents{changed: make(chan struct{}, 100), gone: make(chan string, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- s.Run(ctx, seen) }()
	await := func(events int) {
		for range events {
			<-seen.changed
		}
	}
	await(1)
	// b is as old as its last frame, so that a's next event has to wait.
	a.fire(3, time.Second)
	pods.send(a.frame())
	b.fire(2, 2*time.Second)
	pods.send(b.frame())
	await(2)
	// One joins, one ends, and is removed when those of the others have come until its end.
	late.fire(4, 0)
	pods.send(a.rest()...)
	pods.send(replay.Update{Replica: a.Replica})
	for gone := false; !gone; {
		select {
		case name := <-seen.gone:
			require.Equal(t, "default/a", name)
			gone = true
		case <-time.After(time.Millisecond):
			pods.send(b.frame(), late.frame())
		}
	}
	await(1)
	// The rest of the others comes after the end.
	b.fire(5, -time.Millisecond)
	late.DropSome(3)
	cancel()
	<-pods.stopped
	pods.send(b.rest()...)
	pods.send(late.rest()...)
	close(pods.updates)
	require.NoError(t, <-ran)
	require.Equal(t, []string{"a 7 1", "b 7 2", "a 7 3", "late 7 4", "b 7 5"}, seen.all)
	require.True(t, slices.IsSorted(seen.at))
	assert.Empty(t, seen.gone)
	assert.EqualValues(t, 3, s.Lost())
	require.NoError(t, s.Report("the numbers are lower bounds", 0))
	assert.Contains(t, said.String(), "default/late has lost 3 events")
	s.Close()
	require.True(t, pods.closed)
}

// TestReplicasUnfit: an expression that fits no probe is an error before the run; a pod that sends damaged data is left out.
func TestReplicasUnfit(t *testing.T) {
	to := &console.Console{Out: io.Discard, Err: io.Discard}
	open := func(p *fakePod, show ...string) (*Stream, *fakePods, error) {
		pods := &fakePods{updates: make(chan replay.Update), stopped: make(chan struct{}), first: []replay.Update{p.frame()}}
		o := Options{From: replay.From{Replicas: pods}, Needs: replay.Needs{Exprs: show}, Show: &Show{Exprs: show, TextSize: 9}}
		s, err := Open(to, &query.Config{Specs: querytest.Specs("shop:*")}, o)
		return s, pods, err
	}
	_, pods, err := open(newFakePod(t, "a", 1<<20), "n + status")
	require.ErrorIs(t, err, query.ErrUsage)
	require.ErrorContains(t, err, "status")
	require.True(t, pods.closed)

	p := newFakePod(t, "a", 1<<20)
	s, pods, err := open(p)
	require.NoError(t, err)
	var said bytes.Buffer
	to.Err = &said
	ran := make(chan error)
	go func() { ran <- s.Run(t.Context(), &seenEvents{gone: make(chan string, 10)}) }()
	other := newFakePod(t, "a", 1<<20)
	other.Replica.Bytes = 1000
	pods.send(other.frame())
	pods.send(other.frame())
	pods.send(p.rest()...)
	close(pods.updates)
	require.NoError(t, <-ran)
	require.Equal(t, "stapsdt: default/a is left out: the stream of events was damaged on its way: the recording has 1118208 bytes, but at most 1000 were requested\n", said.String())
	s.Close()
}
