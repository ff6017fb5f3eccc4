package count

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"

	"github.com/stretchr/testify/require"
)

// TestRates: rates are of the time since the last screen. A final screen that follows at once has those since the screen before, and
// what was recorded before the run has its own time.
func TestRates(t *testing.T) {
	c := &streamCounter{reporter: newReporter(&console.Console{}, Options{Interval: time.Second}, query.Text), stream: &events.Stream{}}
	start := c.shown[1].at
	c.begin(start.Add(-9 * time.Second))
	row := &Row[Probe]{key: "row"}
	for _, at := range []struct {
		seconds float64
		count   uint64
		last    bool
		want    float64
	}{{1, 100, false, 10}, {2, 150, false, 50}, {2.25, 175, true, 60}, {3.25, 275, true, 100}} {
		c.until = func() time.Time { return start.Add(time.Duration(at.seconds * 1e9)) }
		row.Count = at.count
		require.InDelta(t, at.want, c.rates([]*Row[Probe]{row}, at.last)[row], 1e-6, at)
	}
}

// TestTitles: histograms can be told apart by their titles, however long the names are.
func TestTitles(t *testing.T) {
	subject := Probe{"provider", strings.Repeat("n", 100)}
	var b bytes.Buffer
	WriteHistograms(&b, Histograms{Options: &Options{Expressions: Expressions{By: []string{"path"}, Buckets: query.Powers{}}}, Columns: 80},
		[]*Row[Probe]{{Of: subject, Text: []string{"/a"}}, {Of: subject, Text: []string{"/b"}}}, " value")
	require.Contains(t, b.String(), "\n path=/a\n")
	require.Contains(t, b.String(), "\n path=/b\n")
}

// TestMost: the most frequent rows are shown, and the others are counted.
func TestMost(t *testing.T) {
	rows := []*Row[Probe]{{Count: 9}, {Count: 5}, {Count: 1}}
	shown, others := most(rows, 2)
	require.Len(t, shown, 2)
	require.Equal(t, "and 1 event in 1 other row (--number 0 shows all)\n", others)
	shown, others = most(rows, 0)
	require.Len(t, shown, 3)
	require.Empty(t, others)
}

// TestSorted: rows are sorted by a column, and those that are equal stay in their order.
func TestSorted(t *testing.T) {
	of := expr.Type{Kind: expr.Int, Size: 8}
	o := Options{Expressions: Expressions{Buckets: query.Powers{}}}
	row := func(name string, values ...int64) *Row[Probe] {
		r := &Row[Probe]{Of: Probe{name, name}, Value: of, Buckets: query.Tallies{}}
		for _, v := range values {
			b := r.Buckets.Of(query.Powers{}.Of(of, uint64(v)))
			b.Count++
			b.Sum.Add(of, uint64(v))
			r.Count++
		}
		return r
	}
	for sort, want := range map[string]string{"": "abcd", "count": "abcd", "average": "bcda", "p50": "bdca", "p99": "cbad", "max": "cbad"} {
		rows := []*Row[Probe]{row("a", 1, 1, 1, 1, 1, 10), row("b", 9, 9, 11), row("c", 2, 14), row("d", 7)}
		o.Sort = sort
		require.NoError(t, o.Check())
		got := ""
		for _, r := range Sorted(rows, &o) {
			got += r.Of.Name
		}
		require.Equal(t, want, got, sort)
	}
	o.Sort = "sum"
	require.ErrorContains(t, o.Check(), "--sort takes count or average or p50 or p99 or max here")
	o.Buckets, o.Value = nil, "n"
	rows := []*Row[Probe]{row("a", -1, -1, math.MinInt64), row("b", math.MaxInt64, math.MaxInt64, math.MaxInt64)}
	require.NoError(t, o.Check())
	require.Equal(t, "b", Sorted(rows, &o)[0].Of.Name)
	require.Equal(t, "27670116110564327421", rows[0].sumText())
	require.Equal(t, "-9223372036854775810", rows[1].sumText())
	rows[0].Value.Unit, rows[1].Value.Unit = kind.Nanoseconds, kind.Nanoseconds
	require.Equal(t, "7690000h", rows[0].sumText())
}

// TestWriteHistograms: few rows have a histogram each, and many are a table.
func TestWriteHistograms(t *testing.T) {
	h := Histograms{Options: &Options{Expressions: Expressions{By: []string{"path"}, Buckets: query.Powers{}}}, Columns: 80}
	var rows []*Row[Probe]
	for _, path := range []string{`"/a"`, `"/b"`, `"/c"`, `"/d"`, `"/e"`} {
		rows = append(rows, &Row[Probe]{
			Of: Probe{"app", "done"}, Text: []string{path}, JSON: []json.RawMessage{json.RawMessage(path)}, Count: 2,
			Value: expr.Type{Kind: expr.Int, Size: 8}, Buckets: query.Tallies{query.Powers{}.Of(expr.Type{Kind: expr.Int, Size: 8}, 5): {Count: 2, Sum: query.Sum{Low: 10}}},
		})
	}
	var few, many bytes.Buffer
	WriteHistograms(&few, h, rows[:2], " size")
	require.Equal(t, 2, strings.Count(few.String(), "app:done size path="))
	require.Contains(t, few.String(), "p99 5")
	WriteHistograms(&many, h, rows, " size")
	require.Equal(t, 1, strings.Count(many.String(), "app:done size\n"))
	require.Contains(t, many.String(), "COUNT  AVERAGE  P50  P99  MAX  path\n")
	require.NotContains(t, many.String(), "path=")
	h.Table = true
	few.Reset()
	WriteHistograms(&few, h, rows[:2], " size")
	rowsOfMany, _, _ := strings.Cut(many.String(), "    2        5")
	require.Equal(t, rowsOfMany+"    2        5    5    5    5  \"/a\"\n    2        5    5    5    5  \"/b\"\n", few.String())
}

// TestDetached: the row of a probe that was detached from says so, and others do not.
func TestDetached(t *testing.T) {
	var out bytes.Buffer
	of := expr.Type{Kind: expr.Int, Size: 8}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rows := []*Row[Probe]{
		{Of: Probe{"go", "main.hot"}, Count: 50, Value: of, Detached: &query.Detachment{At: at, After: 1234 * time.Millisecond}},
		{Of: Probe{"go", "main.rare"}, Count: 20, Value: of},
	}
	c := newReporter(&console.Console{Out: &out}, Options{}, query.Text)
	require.Equal(t, "COUNT      DETACHED  PROBE\n   50  after 1.234s  go:main.hot\n   20                go:main.rare\n", string(c.table(rows, true)))
	require.NotContains(t, string(c.table(rows[1:], true)), "DETACHED")
	require.NoError(t, c.encode(rows))
	lines := strings.Split(out.String(), "\n")
	require.Contains(t, lines[0], `"detached_at":"2026-01-02T03:04:05Z"`)
	require.NotContains(t, lines[1], "detached")
	var b bytes.Buffer
	WriteHistograms(&b, Histograms{Options: &Options{Expressions: Expressions{Buckets: query.Powers{}}}, Columns: 80}, rows[:1], " n")
	require.Contains(t, b.String(), "go:main.hot n\ndetached after 1.234s\n")
}
