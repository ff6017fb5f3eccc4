package functions

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// row returns the row of calls that took some times.
func row(f *Function, by string, total, own time.Duration, took ...time.Duration) *Row {
	r := &count.Row[*Function]{
		Of: f, Count: uint64(len(took)), Value: query.Elapsed, Buckets: query.Tallies{},
		Whole: uint64(total), Own: uint64(own),
	}
	if by != "" {
		r.Text, r.JSON = []string{by}, []json.RawMessage{json.RawMessage(by)}
	}
	for _, d := range took {
		r.Buckets.Of(query.Powers{}.Of(query.Elapsed, uint64(d))).Add(query.Elapsed, uint64(d))
	}
	return newRow(r, query.Powers{})
}

var fast, slow = &Function{name: "go:main.fast"}, &Function{name: "go:main.slow"}

// newTestTable returns a table with calls of two functions.
func newTestTable() *Table {
	return &Table{Rows: []*Row{
		row(fast, "", 6*time.Microsecond, 6*time.Microsecond, 2*time.Microsecond, 2*time.Microsecond, 2*time.Microsecond),
		row(slow, "", 8*time.Millisecond, time.Millisecond, 8*time.Millisecond),
	}}
}

// TestText: the functions with the most time come first, and each other function is in a line.
func TestText(t *testing.T) {
	text := func(t *Table, sort string, limit int) []string {
		return strings.Split(strings.TrimSuffix(string(t.Text(sort, limit, 0)), "\n"), "\n")
	}
	all := newTestTable()
	const (
		head  = "COUNT  P50  P99  MAX  TOTAL  OWN  FUNCTION"
		first = "    1  8ms  8ms  8ms    8ms  1ms  go:main.slow"
		next  = "    3  2µs  2µs  2µs    6µs  6µs  go:main.fast"
	)
	assert.Equal(t, []string{head, first, next}, text(all, "", 20))
	assert.Equal(t, []string{head, next, first}, text(all, "count", 0))
	assert.Equal(t, []string{head, first, next}, text(all, "own", 0))
	assert.Equal(t, []string{head, first, "and 3 calls in 1 other row (--number 0 shows all)"}, text(all, "total", 1))

	all.Idle, all.Unseen, all.Uncounted, all.Calls, all.Returns = 412, []string{"go:main.loop"}, 3, 5, 1
	all.Running, all.AtMost = []string{"go:main.main"}, "calls of detached functions are not seen"
	all.Rows[0].Detached = &query.Detachment{After: time.Second}
	assert.Equal(t, []string{
		"COUNT  P50  P99  MAX  TOTAL    OWN  DETACHED  FUNCTION",
		"    1  8ms  8ms  8ms    8ms  <=1ms            go:main.slow",
		"    3  2µs  2µs  2µs    6µs  <=6µs  after 1s  go:main.fast",
		"412 functions had no calls",
		"3 functions detached before a call returned",
		"called, but not returned: go:main.main",
		"not measured, because their returns cannot be seen: go:main.loop",
		"5 calls without a return: running, or ended by a panic",
		"1 return of calls that began earlier",
		"OWN is an upper bound, because calls of detached functions are not seen",
	}, text(all, "", 0))

	assert.Equal(t, []string{"no events"}, text(&Table{}, "", 0))
	assert.Equal(t, []string{"1 function had no such calls"}, text(&Table{Idle: 1, Where: true}, "", 0))
	by := &Table{By: []string{"ok"}, Rows: []*Row{row(slow, "true", 1, 1, 1), row(slow, "false", 2, 2, 2)}}
	assert.Equal(t, []string{
		"COUNT  P50  P99  MAX  TOTAL  OWN  FUNCTION      ok",
		"    1  2ns  2ns  2ns    2ns  2ns  go:main.slow  false",
		"    1  1ns  1ns  1ns    1ns  1ns  go:main.slow  true",
	}, text(by, "", 0))
}

// TestJSON: a time that is only a bound has another name.
func TestJSON(t *testing.T) {
	all := newTestTable()
	all.Idle = 7
	lines := func() (decoded []map[string]any) {
		var b bytes.Buffer
		require.NoError(t, all.encode(&b))
		for line := range strings.Lines(b.String()) {
			one := map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(line), &one))
			decoded = append(decoded, one)
		}
		require.Len(t, decoded, 3)
		return decoded
	}
	exact := lines()
	assert.Equal(t, []any{"go:main.slow", "go:main.slow:return", 8e6, 1e6, 1.}, []any{
		exact[0]["start"], exact[0]["end"], exact[0]["total"], exact[0]["own"], exact[0]["count"],
	})
	assert.NotContains(t, exact[0], "own_at_most")
	assert.Equal(t, 7., exact[2]["functions_without_calls"])
	assert.Equal(t, []any{}, exact[2]["not_returned"])
	all.AtMost = "a reason"
	bound := lines()
	assert.Equal(t, 1e6, bound[0]["own_at_most"])
	assert.NotContains(t, bound[0], "own")
}

// TestSince: the difference of two tables has the calls between them, and only functions with such calls.
func TestSince(t *testing.T) {
	const ms = time.Millisecond
	earlier, later := newTestTable(), newTestTable()
	later.Idle, later.Calls = 4, 2
	later.Rows[1] = row(slow, "", 11*ms, 2*ms, 8*ms, 3*ms)
	since := later.Since(earlier)
	require.Len(t, since.Rows, 1)
	r := since.Rows[0]
	assert.Equal(t, []any{slow, uint64(1), 3 * ms, ms}, []any{r.Of, r.Count, r.Total, r.Own})
	assert.Equal(t, []float64{3e6, 3e6}, []float64{r.Took.Quantile(0.5), r.Took.Average()})
	assert.Equal(t, []int{5, 2}, []int{since.Idle, int(since.Calls)})
	assert.Equal(t, later.Rows, later.Since(&Table{}).Rows)
	assert.Empty(t, later.Since(later).Rows)
}

// TestAdd: a function without rows has no calls, or is running, or is not measured.
func TestAdd(t *testing.T) {
	all, both := &Table{}, [2]bool{true, true}
	add := func(fit [2]bool, totals query.Totals, hasRows, detached bool) {
		all.add(&Function{name: "go:main.f", fit: fit}, totals, hasRows, detached)
	}
	add(both, query.Totals{}, false, false)
	add(both, query.Totals{Ends: 1}, false, false) // its call began earlier
	add(both, query.Totals{Starts: 3, Pairs: 2}, true, false)
	add(both, query.Totals{Starts: 1}, false, false)
	add(both, query.Totals{Starts: 1}, false, true)
	add([2]bool{true, false}, query.Totals{Starts: 9}, false, false)
	add([2]bool{}, query.Totals{}, false, false) // it lacks what an expression uses
	assert.Equal(t, &Table{
		Idle: 2, Running: []string{"go:main.f"}, Unseen: []string{"go:main.f"}, Uncounted: 1, Calls: 3, Returns: 1, detached: 1,
	}, all)
}

// TestCheck: the names of the columns sort, and others do not. The name of the functions is no expression.
func TestCheck(t *testing.T) {
	for _, column := range append(columns, "") {
		assert.NoError(t, check(&count.Options{Sort: column}))
	}
	assert.ErrorContains(t, check(&count.Options{Sort: "sum"}), `--sort takes total, own, count, p50, p99 or max for a table of functions, not "sum"`)
	assert.ErrorContains(t, check(&count.Options{Limit: -1}), "negative")
	rest, found := CutBy([]string{"ok", By})
	assert.Equal(t, []any{[]string{"ok"}, true}, []any{rest, found})
	rest, found = CutBy([]string{"ok"})
	assert.Equal(t, []any{[]string{"ok"}, false}, []any{rest, found})
}
