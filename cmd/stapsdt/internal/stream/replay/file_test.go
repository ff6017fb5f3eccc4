package replay

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// write writes a recording to a file.
func write(t *testing.T, r *eventtest.Recording) (path string) {
	path = filepath.Join(t.TempDir(), "recording")
	require.NoError(t, os.WriteFile(path, r.Bytes(), 0o600))
	return path
}

// open opens recordings until the test ends.
func open(t *testing.T, where string, paths ...string) *Reader {
	r, err := Open(From{Paths: paths}, nil, where, nil)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// take calls f with each event that a reader finds, and returns the events as texts.
func take(t *testing.T, r *Reader, f func(*recording.Event)) (all []string) {
	_, err := r.More()
	require.NoError(t, err)
	for {
		e, _, err := r.Next()
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all = append(all, eventtest.Text(e))
		f(e)
	}
}

// texts returns the events that a reader finds.
func texts(t *testing.T, r *Reader) []string { return take(t, r, func(*recording.Event) {}) }

// TestFilter: a condition selects events, counts those for which it divides by zero, and leaves out the probes
// that lack its variables, with a warning. What was lost before an event that it refuses is missing before the next.
func TestFilter(t *testing.T) {
	var r eventtest.Recording
	x, y := r.Probe("p", "x", "n"), r.Probe("p", "y", "m")
	r.Chunk(0, 6, eventtest.Fired{Probe: y, Words: []uint64{1}}, eventtest.Fired{Probe: x, Words: []uint64{20}},
		eventtest.Fired{Probe: x, Words: []uint64{0}}, eventtest.Fired{Probe: x, Words: []uint64{5}}, eventtest.Fired{Probe: x, Words: []uint64{1}})
	reader := open(t, "10 / n >= 2", write(t, &r))
	var said bytes.Buffer
	reader.Begin(&console.Console{Err: &said})
	require.Equal(t, "stapsdt: 1 of 2 probes has no n and is left out\n", said.String())
	var got []uint64
	take(t, reader, func(e *recording.Event) { got = append(got, e.Word(0), e.Missing) })
	require.Equal(t, []uint64{5, 6, 1, 0}, got)
	require.Equal(t, uint64(1), reader.Faults)
}
