package top

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/functions"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// functionTable returns a table of a function, which has no name, with some calls of a millisecond.
func functionTable(calls int) *functions.Table {
	r := &count.Row[*functions.Function]{Of: &functions.Function{}, Count: uint64(calls), Value: query.Elapsed, Buckets: query.Tallies{}}
	for range calls {
		r.Buckets.Of(query.Powers{}.Of(query.Elapsed, 1e6)).Add(query.Elapsed, 1e6)
	}
	took := render.NewHistogram(query.Elapsed, query.Powers{}, r.Buckets)
	total := time.Duration(calls) * time.Millisecond
	return &functions.Table{Idle: 3, Rows: []*functions.Row{{Row: r, Took: took, Total: total, Own: total / 2}}}
}

// TestRecent: a screen has the calls of the last slots.
func TestRecent(t *testing.T) {
	var last recent
	at := time.Unix(100, 0)
	last.add(&functions.Table{}, at)
	for i := 1; i <= 2*slots; i++ {
		now, window := last.add(functionTable(10*i), at.Add(time.Duration(i)*time.Second))
		assert.Equal(t, time.Duration(min(i, slots))*time.Second, window)
		assert.Equal(t, uint64(10*min(i, slots)), now.Rows[0].Count)
	}
}

// TestFunctionScreen: functions have columns of their own, by which keys sort, and the same data in JSON.
func TestFunctionScreen(t *testing.T) {
	s := functionSnapshot(functionTable(20), 2*time.Second)
	lines := split(s.text(100))
	require.Len(t, lines, 4)
	assert.Regexp(t, `^\d\d:\d\d:\d\d  10 calls/s  1 function  of the last 2s$`, lines[0])
	assert.Equal(t, "3 functions had no calls", lines[1])
	assert.Equal(t, []string{"FUNCTION"}, strings.Fields(lines[2])[7:], "all columns")

	st := state{columns: functionColumns, sort: defaultFunctionColumn}
	for _, want := range []string{"OWN", "FUNCTION", "RATE/S"} {
		st.key(tcell.NewEventKey(tcell.KeyRune, 's', tcell.ModNone), s)
		assert.Equal(t, want, st.sort.name)
		assert.Len(t, s.sorted(st.sort, ""), 1)
	}
	var b bytes.Buffer
	require.NoError(t, s.encode(&b))
	var j JSONFunctions
	require.NoError(t, json.Unmarshal(b.Bytes(), &j), b.String())
	require.Len(t, j.Functions, 1)
	f := j.Functions[0]
	assert.Equal(t, []any{10., uint64(20), 20 * time.Millisecond, 10 * time.Millisecond, render.JSONFloat(1e6), 3},
		[]any{f.Rate, f.Count, f.Total, *f.Own, f.P50, j.Idle})
}
