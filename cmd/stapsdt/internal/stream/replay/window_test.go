package replay

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/stretchr/testify/require"
)

// openFrom opens recordings until the test ends.
func openFrom(t *testing.T, from From) *Reader {
	r, err := Open(from, nil, "", nil)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// TestWindow: a time is a date, a time of the last day, or a duration before the last event, and both ends of the
// window belong to it.
func TestWindow(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.Local)
	recorded := eventtest.Recording{Realtime: time.Duration(noon.UnixNano())}
	p := recorded.Probe("p", "x", "n")
	var fired []eventtest.Fired
	for n := range uint64(4) {
		fired = append(fired, eventtest.Fired{Probe: p, At: time.Duration(n) * time.Second, Words: []uint64{n}})
	}
	recorded.Chunk(0, 0, fired...)
	from := From{Paths: []string{write(t, &recorded)}}
	for _, test := range []struct{ since, until, want string }{
		{"", "", "0123"}, {"1s", "", "23"}, {"0", "", "3"}, {"2s", "1s", "12"}, {"", "12:00", "0"}, {"12:00:01.5", "12:00:02", "2"},
		{"12:01", "", "0123"}, // of the day before: the last event is earlier
		{"2026-11-23 12:00:01", "2026-11-23 12:00:02.5", "12"}, {"2026-11-24 12:00:00", "", ""},
		{noon.Add(2 * time.Second).In(time.FixedZone("", 5400)).Format(time.RFC3339), "", "23"},
	} {
		from.Since, from.Until = test.since, test.until
		got := ""
		take(t, openFrom(t, from), func(e *recording.Event) { got += fmt.Sprint(e.Word(0)) })
		require.Equal(t, test.want, got, "%q to %q", test.since, test.until)
	}
	elsewhere, err := os.Open(from.Paths[0])
	require.NoError(t, err)
	require.NoError(t, os.Remove(from.Paths[0]))
	SetFile(elsewhere)
	from.Since, from.Until = "1s", "1s"
	require.Len(t, texts(t, openFrom(t, from)), 1, "the file is open, and its path is one of another container")
	for _, text := range []string{"-4s", "25:00", "2026-11-23"} {
		for flag, from := range map[string]From{"--since": {Since: text}, "--until": {Until: text}} {
			_, err := Open(from, nil, "", nil)
			require.ErrorIs(t, err, query.ErrUsage)
			require.ErrorContains(t, err, flag+" takes a time such as 17:28:50.5")
		}
	}
}
