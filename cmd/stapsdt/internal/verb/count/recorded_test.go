package count

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"

	"github.com/stretchr/testify/require"
)

// TestRecorded: the events of a recording are counted, summed and divided into buckets, and what is not included is said.
func TestRecorded(t *testing.T) {
	var r eventtest.Recording
	x, y := r.Probe("p", "x", "n", "text"), r.Probe("p", "y")
	var fired []eventtest.Fired
	for _, n := range []uint64{1<<64 - 1, 1<<64 - 2, 3, 3, 0} {
		fired = append(fired, eventtest.Fired{Probe: x, At: time.Second, Words: []uint64{n}, Texts: []string{string(rune('a' + n%4))}})
	}
	r.Chunk(0, 4, append(fired, eventtest.Fired{Probe: y, At: time.Second})...)
	path := filepath.Join(t.TempDir(), "recording")
	require.NoError(t, os.WriteFile(path, r.Bytes(), 0o600))
	from := replay.From{Paths: []string{path}}
	anyTime := regexp.MustCompile(`"time":"[^"]*",`)
	lost := `{"lost":4,"before":4}` + "\n"
	for _, c := range []struct {
		config    query.Config
		o         Options
		want, say string
	}{
		{query.Config{}, Options{}, "COUNT  PROBE\n    5  p:x\n    1  p:y\n", "has lost 4 events before its first one: the numbers are lower bounds"},
		{query.Config{}, Options{Expressions: Expressions{By: []string{"text, n == 3"}}, Limit: 1}, "COUNT  PROBE  text  n == 3\n    2  p:x    \"d\"   true\nand 3 events in 3 other rows (--number 0 shows all)\n", ""},
		{query.Config{Where: "n < 9"}, Options{Expressions: Expressions{By: []string{"6 / n"}, Value: "n"}}, "COUNT  SUM OF n  PROBE  6 / n\n    2         6  p:x    2\n", "1 events are not included"},
		{query.Config{Where: "n == 17"}, Options{}, "no events\n", ""},
		{
			query.Config{Where: "n < 9"}, Options{Expressions: Expressions{By: []string{"text"}, Value: "n", Buckets: query.Powers{}}, Table: true, Sort: "max", Limit: 1},
			"p:x n\nCOUNT  AVERAGE  P50  P99  MAX  text\n    2        3    3    3    3  \"d\"\nand 1 event in 1 other row (--number 0 shows all)\n", "",
		},
		{
			query.Config{Where: "n > 9", Format: query.JSON}, Options{Expressions: Expressions{By: []string{"text"}, Value: "n"}},
			`{"provider":"p","probe":"x","by":{"text":"c"},"count":1,"sum":18446744073709551614}` + "\n" + `{"provider":"p","probe":"x","by":{"text":"d"},"count":1,"sum":18446744073709551615}` + "\n" + lost, "",
		},
		{
			query.Config{Where: "n > 2", Format: query.JSON}, Options{Expressions: Expressions{Value: "n"}},
			`{"provider":"p","probe":"x","by":{},"count":4,"sum":36893488147419103235}` + "\n" + lost, "",
		},
		{
			query.Config{Where: "n < 9", Format: query.JSON}, Options{Expressions: Expressions{Value: "n", Buckets: query.Linear{High: 4, Step: 2}}},
			`{"provider":"p","probe":"x","by":{},"count":3,"average":2,"p50":3,"p90":3,"p99":3,"p999":3,"max":3,` +
				`"buckets":[{"low":0,"high":2,"count":1},{"low":2,"high":4,"count":2}]}` + "\n" + lost, "",
		},
	} {
		c.o.From = from
		var out, said bytes.Buffer
		require.NoError(t, Run(t.Context(), &console.Console{Out: &out, Err: &said}, c.config, c.o))
		require.Equal(t, c.want, anyTime.ReplaceAllString(out.String(), ""))
		require.Contains(t, said.String(), c.say)
	}
	for want, o := range map[string]Options{
		"--sort takes count here, not":        {Sort: "max"},
		"--sort takes count or sum here, not": {Sort: "max", Expressions: Expressions{Value: "n"}},
		"-n -1 is negative":                   {Limit: -1},
		"-i cannot be used with --from":       {Interval: time.Second},
		"a histogram":                         {Expressions: Expressions{Value: "text", Buckets: query.Powers{}}},
	} {
		o.From = from
		err := Run(t.Context(), &console.Console{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, query.Config{}, o)
		require.ErrorIs(t, err, query.ErrUsage)
		require.ErrorContains(t, err, want)
	}
	c := newReporter(&console.Console{}, Options{Interval: time.Second}, query.Text)
	c.until = func() time.Time { return c.shown[1].at.Add(2 * time.Second) }
	require.Equal(t, "COUNT  PER SECOND  PROBE\n    9           4  p:x\n", string(c.table([]*Row[Probe]{{Of: Probe{"p", "x"}, Count: 9}}, false)))
}
