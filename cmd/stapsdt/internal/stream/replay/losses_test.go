package replay

import (
	"bytes"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"

	"github.com/stretchr/testify/require"
)

// skew is the skew of package recording.
const skew = time.Millisecond

// TestLosses: lost events are counted by where they are missing, in text and in JSON.
func TestLosses(t *testing.T) {
	between := " between its first one and " + time.Unix(5, 0).Format("15:04:05.000000")
	for _, test := range []struct {
		before     [3]uint64 // the shard's events before each of its chunks
		dropped    uint64
		text, json string
	}{
		{[3]uint64{0, 1, 2}, 0, "", ""},
		{[3]uint64{3, 4, 5}, 0, "3 events before its first one", `{"lost":3,"before":3}`},
		{[3]uint64{0, 2, 3}, 0, "1 event" + between, `{"lost":1,"between":1}`},
		{
			[3]uint64{3, 5, 8}, 5, "11 events: 3 before its first one, 1" + between + ", 2 after the last one that was read, 5 at unknown times",
			`{"lost":11,"before":3,"between":1,"after":2,"unplaced":5}`,
		},
	} {
		var r eventtest.Recording
		r.Head.Dropped = test.dropped
		p := r.Probe("p", "x")
		r.Chunk(0, test.before[0], eventtest.Fired{Probe: p, At: time.Second})
		r.Chunk(0, test.before[1], eventtest.Fired{Probe: p, At: 5 * time.Second})
		r.Chunk(0, test.before[2])
		reader := open(t, "", write(t, &r))
		require.Len(t, texts(t, reader), 2)
		var out, said bytes.Buffer
		require.NoError(t, reader.Losses().Encode(&out))
		reader.Report(&console.Console{Err: &said}, LowerBounds)
		if test.text != "" {
			test.json += "\n"
			test.text = "stapsdt: " + reader.Files()[0].Path + " has lost " + test.text + ": the numbers are lower bounds\n"
		}
		file := reader.Files()[0]
		for _, since := range []time.Duration{0, time.Second, 5*time.Second + skew - 1, 5*time.Second + skew} {
			require.Equal(t, file.Keeps(since), file.Still().Keeps(since), "%v: %v", test, since)
		}
		require.Equal(t, file.Last(), file.Still().Last())
		require.Equal(t, test.json, out.String())
		require.Equal(t, test.text, said.String())
	}
}
