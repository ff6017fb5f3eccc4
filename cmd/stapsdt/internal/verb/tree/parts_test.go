package tree

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"

	"github.com/stretchr/testify/require"
)

// TestParts: an operation is drawn as it was at the last look, while events are being read.
func TestParts(t *testing.T) {
	f := replay.NewFile(&replay.Process{PID: 1})
	start, end := eventtest.Spans()
	var operations pairing.Operations
	operations.Know(start)
	operations.Know(end)
	p := NewParts()
	add := func(at time.Duration, words ...uint64) *pairing.Operation {
		e := eventtest.Event(at, start, words...)
		o := operations.Add(e, f)
		p.Add(&o, e)
		return o.Started
	}
	root := add(1, 7, 0)
	add(2, 8, 7)
	f.Passed(11)
	require.Nil(t, p.Lines(root, 80))
	p.Look()
	before := p.Lines(root, 80)
	require.Len(t, before, 3)
	require.Contains(t, before[1], ">10ns")
	require.Contains(t, before[2], "not ended yet")
	read := make(chan struct{})
	go func() { // the detector of races sees it
		defer close(read)
		f.Passed(21)
		f.Missed(20)
	}()
	require.Equal(t, before, p.Lines(root, 80))
	<-read
	require.Equal(t, before, p.Lines(root, 80))
	p.Look()
	after := p.Lines(root, 80)
	require.Contains(t, after[1], ">20ns")
	require.Contains(t, after[2], "its end may be lost")
}
