package replay

import (
	"bytes"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// TestCopy: the events of selected probes are copied, unless there is a condition. Damage is an error
// of the file, whose events are then over.
func TestCopy(t *testing.T) {
	made := &eventtest.Recording{}
	tick, other := made.Probe("p", "tick", "n"), made.Probe("other", "tick", "n")
	var fired []eventtest.Fired
	for i := range uint64(6) {
		probe := tick
		if i%2 == 1 {
			probe = other
		}
		fired = append(fired, eventtest.Fired{Probe: probe, At: 10, Words: []uint64{i}})
	}
	made.Chunk(0, 0, fired...)
	made.Chunk(1, 0, eventtest.Fired{Probe: tick, At: 20, Words: []uint64{6}})
	for _, where := range []string{"", "n >= 0"} {
		for _, damaged := range []bool{false, true} {
			file := made.Bytes()
			if damaged { // the size of the fifth record
				head, err := recording.DecodeHead(file)
				require.NoError(t, err)
				file[head.ChunkOffset(0)+recording.ChunkHeadBytes+4*(recording.RecordHeadBytes+8)] = 1
			}
			r, err := New(querytest.Specs("p:*"), where, nil)
			require.NoError(t, err)
			f, err := r.Add(bytes.NewReader(file), &Process{PID: 5}, func() {})
			require.NoError(t, err)
			_, err = r.More()
			require.NoError(t, err)
			_, _, err = r.Next()
			require.NoError(t, err)
			to := &recording.Destination{Targets: []recording.Target{recording.NewTarget(tick, 0)}}
			size, events, err := r.Copy(f, make([]byte, 1000), to)
			require.EqualValues(t, events*(recording.RecordHeadBytes+8), size)
			switch {
			case where != "":
				require.NoError(t, err)
				require.Zero(t, events)
			case damaged:
				require.ErrorIs(t, err, recording.ErrCorrupt)
				require.ErrorContains(t, err, "process 5: ")
				_, _, err = r.Next()
				require.ErrorContains(t, err, "EOF")
			default:
				require.NoError(t, err)
				require.EqualValues(t, 3, events)
			}
		}
	}
}
