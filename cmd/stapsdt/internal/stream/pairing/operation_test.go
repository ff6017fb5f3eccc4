package pairing

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// fileOf returns a recording whose events were read.
func fileOf(t *testing.T, r *eventtest.Recording) *replay.File {
	reader, err := replay.New(nil, "", nil)
	require.NoError(t, err)
	f, err := reader.Add(bytes.NewReader(r.Bytes()), &replay.Process{}, func() {})
	require.NoError(t, err)
	_, err = reader.More()
	for err == nil {
		_, _, err = reader.Next()
	}
	require.ErrorIs(t, err, io.EOF)
	return f
}

// TestOpenOperations: an operation is known to be open only if no event is missing since it
// started. Those come first, and then those that have been open for longer.
func TestOpenOperations(t *testing.T) {
	var r eventtest.Recording
	p := r.Probe("p", "x")
	r.Chunk(0, 0, eventtest.Fired{Probe: p, At: time.Second})
	r.Chunk(0, 3, eventtest.Fired{Probe: p, At: 5 * time.Second}, eventtest.Fired{Probe: p, At: 9 * time.Second})
	live := replay.NewFile(&replay.Process{})
	live.Passed(9 * time.Second)
	live.Missed(5 * time.Second)
	for _, f := range []*replay.File{fileOf(t, &r), live} {
		var all []*Operation
		for _, ms := range []time.Duration{8000, 5000, 5001, 1000, 10_000} {
			all = append(all, &Operation{File: f, Since: ms * time.Millisecond})
		}
		SortOpen(all)
		var got []any
		for _, o := range all {
			got = append(got, o.For().String(), o.IsOpen())
		}
		require.Equal(t, []any{"3.999s", true, "1s", true, "0s", true, "8s", false, "4s", false}, got)
	}
}

// TestGone: nothing is left of a process that has ended, nor of what it had recorded before.
func TestGone(t *testing.T) {
	start, end, _ := sides(0)
	f := replay.NewFile(&replay.Process{})
	var o Operations
	o.Know(start)
	o.Know(end)
	f.BeginPast(1)
	require.NotNil(t, o.Add(eventtest.Event(1, start, 1, 0, 0), f).Started)
	f.EndPast(1, []*recording.Probe{start, end})
	o.Gone(f)
	require.Zero(t, len(o.sides)+o.Open.Len())
}
