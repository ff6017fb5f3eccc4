package mirror

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// breaking is a Resumer whose connection breaks with every third frame. Its receiver comes again once more events were written.
type breaking struct {
	*reading
	t        *testing.T
	position *Position
	written  int
	breaks   int
	outage   uint64 // events of a thread
	ended    bool   // the last frame has arrived
}

var errBroken = errors.New("broken")

func (b *breaking) Write(frame []byte) (int, error) {
	if b.written++; b.written%3 == 0 {
		return len(frame) / 2, errBroken
	}
	f, err := Read(bytes.NewReader(frame))
	require.NoError(b.t, err)
	b.apply(b.t, f)
	require.NoError(b.t, b.position.Take(f))
	b.ended = f.Last()
	return len(frame), nil
}

func (b *breaking) Resume() (*Frame, error) {
	b.breaks++
	for from := b.of.fired[0].Load(); b.of.fired[0].Load() < from+b.outage; time.Sleep(time.Millisecond) {
		select {
		case <-b.of.ended:
			from = 0
		default:
		}
	}
	return Read(bytes.NewReader(b.position.Frame()))
}

// TestResume: after a connection has broken, the receiver gets each event that the recording still has once and in its order, and
// counts the others as lost.
func TestResume(t *testing.T) {
	for name, c := range map[string]struct{ events, ahead, outage uint64 }{
		"kept":      {10_000, 1000, 0},
		"overtaken": {100_000, math.MaxUint64 / 2, 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			w := write(t, c.events, c.ahead)
			b := &breaking{
				t: t, reading: &reading{of: w, mirror: New(w.Bytes())}, position: NewPosition(w.Bytes()), outage: c.outage,
			}
			s, err := NewSender(b, w)
			require.NoError(t, err)
			require.NoError(t, s.Run(w.ended))
			require.True(t, b.ended)
			require.Positive(t, b.breaks)
			require.EqualValues(t, threads*c.events, b.seen+b.reader.Lost())
			require.Equal(t, c.outage > 0, b.reader.Lost() > 0, "%d were lost", b.reader.Lost())
			require.Len(t, b.reader.Probes(), 1+threads)
		})
	}
}

// TestResumeSends: a resumed Sender sends nothing that the receiver has, and everything to a new one.
func TestResumeSends(t *testing.T) {
	w := newWriter()
	number := addProbe(t, w, "first")
	w.AppendForeign(number, w.Now(), 100, 1, []uint64{0, 0}, []string{""})
	var out bytes.Buffer
	s, err := NewSender(&out, w)
	require.NoError(t, err)
	_, err = s.Send()
	require.NoError(t, err)
	first := out.Len()
	f, err := Read(&out)
	require.NoError(t, err)
	at := NewPosition(w.Bytes())
	before, err := Read(bytes.NewReader(at.Frame()))
	require.NoError(t, err)
	require.NoError(t, at.Take(f))
	after, err := Read(bytes.NewReader(at.Frame()))
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, s.moveTo(after))
		_, err = s.Send()
		require.NoError(t, err)
		require.Equal(t, frameHeadBytes+bodyHeadBytes, out.Len())
		out.Reset()
		require.NoError(t, s.moveTo(before))
		_, err = s.Send()
		require.NoError(t, err)
		require.Equal(t, first, out.Len())
		out.Reset()
	}
	// The position in another recording, and one that no receiver has.
	other := NewPosition(w.Bytes())
	head := s.head
	head.Chunks--
	for _, b := range [][]byte{frame(0, head.Encode()), frame(0, s.head.Encode(), 1<<40, []byte{1})} {
		f, err := Read(bytes.NewReader(b))
		require.NoError(t, err)
		require.ErrorIs(t, s.moveTo(f), ErrDamaged)
	}
	f, err = Read(bytes.NewReader(frame(0, []byte("text"))))
	require.NoError(t, err)
	require.Error(t, other.Take(f))
}
