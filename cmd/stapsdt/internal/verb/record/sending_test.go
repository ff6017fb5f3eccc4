//go:build linux

package record

import (
	"bytes"
	"errors"
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/mirror"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// sendAll sends a recording of a program's events to increments, and returns the result of the recording.
func sendAll(t *testing.T, increments io.Writer, cancel func()) (delivered int, said string, err error) {
	t.Helper()
	program, _ := memory(t, true)
	var to bytes.Buffer
	o, err := create(&console.Console{Err: &to}, &Options{
		Path: filepath.Join(t.TempDir(), "sent"), Size: 4 << 20, Limit: math.MaxUint64, TextSize: 64, Increments: increments,
	}, nil)
	require.NoError(t, err)
	c := newConsumer(o)
	defer c.close()
	require.NoError(t, o.send(cancel))
	reader, err := replay.New(querytest.Specs("all:*"), "", nil)
	require.NoError(t, err)
	_, err = reader.Add(program, &replay.Process{PID: 100}, func() {})
	require.NoError(t, err)
	for _, p := range reader.Probes() {
		c.Know(p)
	}
	d := &events.Delivery{Consumer: c, Show: &events.Show{TextSize: 64}}
	_, err = reader.More()
	require.NoError(t, err)
	for {
		e, f, err := reader.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		delivered++
		require.NoError(t, d.Event(e, f))
	}
	err = o.report()
	return delivered, to.String(), err
}

// TestSent: all events of a recording are sent while it is made, with the probes that have not fired, and nothing is printed.
func TestSent(t *testing.T) {
	var sent bytes.Buffer
	delivered, said, err := sendAll(t, &sent, func() { t.Error("it was canceled") })
	require.NoError(t, err)
	require.Empty(t, said)
	m, seen := mirror.New(5<<20), 0
	var reader *recording.Reader
	for last := false; !last; {
		f, err := mirror.Read(&sent)
		require.NoError(t, err)
		require.NoError(t, m.Apply(f))
		if reader == nil {
			reader, err = recording.NewReader(m)
			require.NoError(t, err)
		}
		_, err = reader.More()
		for err == nil {
			if _, err = reader.Next(); err == nil {
				seen++
			}
		}
		require.Equal(t, io.EOF, err)
		last = f.Last()
	}
	require.Equal(t, delivered, seen)
	require.Zero(t, reader.Lost())
	require.Len(t, reader.Probes(), len(argTypes)-1, "the selected ones, and each once")
}

type brokenPipe struct{}

var errBroken = errors.New("broken pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errBroken }

// TestNotSent: if nobody takes the recording, the run is canceled and fails.
func TestNotSent(t *testing.T) {
	canceled := make(chan struct{})
	_, _, err := sendAll(t, brokenPipe{}, func() { close(canceled) })
	require.ErrorIs(t, err, errBroken)
	<-canceled
}
