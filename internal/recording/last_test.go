package recording

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLastEvent: the last event of all shards has the time that Next returns for it, after a reading of the clocks too, and records
// that are not whole do not matter.
func TestLastEvent(t *testing.T) {
	for _, clock := range []ClockKind{Monotonic, Counter} {
		b := newBuilder(clock)
		at := func(ms uint64) Reading {
			return Reading{Ticks: ms * 1e6, Monotonic: int64(ms) * 1e6, Realtime: int64(ms)*1e6 + 1e15}
		}
		b.head.Reading = at(0)
		last := func() int64 {
			whole := b.bytes()
			n, err := LastEvent(bytes.NewReader(whole), int64(len(whole)))
			require.NoError(t, err)
			return n
		}
		require.Zero(t, last())
		b.chunk(chunkHead{sequence: 1, reading: at(100)}, newRecord(0, 110e6, "", 1), newRecord(0, 900e6, "", 2))
		require.EqualValues(t, 1e15+900e6, last())
		b.chunk(chunkHead{sequence: 1, shard: 1, reading: at(1000)}, newRecord(0, 1200e6, "", 3))
		b.chunk(chunkHead{sequence: 2, before: 2, reading: at(1000)}, newRecord(0, 1001e6, "", 4))
		require.EqualValues(t, 1e15+1200e6, last())
		whole := b.bytes()
		r, err := NewReader(bytes.NewReader(whole))
		require.NoError(t, err)
		_, err = r.More()
		require.NoError(t, err)
		var realtime int64
		for e, err := r.Next(); err == nil; e, err = r.Next() {
			realtime = e.Realtime
		}
		require.Equal(t, realtime, last())
	}
	_, err := LastEvent(bytes.NewReader(nil), 0)
	require.ErrorIs(t, err, ErrCorrupt)
}
