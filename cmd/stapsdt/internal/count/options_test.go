//go:build linux

package count

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/stretchr/testify/require"
)

// TestMost: the most frequent rows are shown, and the others are counted.
func TestMost(t *testing.T) {
	rows := []*Row[Probe]{{Count: 9}, {Count: 5}, {Count: 1}}
	shown, others := most(rows, 2)
	require.Len(t, shown, 2)
	require.Equal(t, "and 1 event in 1 other row (-n 0 shows all)\n", others)
	shown, others = most(rows, 0)
	require.Len(t, shown, 3)
	require.Empty(t, others)
}

// TestWriteHistograms: few rows have a histogram each, and many are a table.
func TestWriteHistograms(t *testing.T) {
	h := Histograms{Options: &Options{Expressions: Expressions{By: []string{"path"}, Buckets: record.Powers{}}}, Columns: 80}
	var rows []*Row[Probe]
	for _, path := range []string{`"/a"`, `"/b"`, `"/c"`, `"/d"`, `"/e"`} {
		rows = append(rows, &Row[Probe]{
			Of: Probe{"app", "done"}, Text: []string{path}, JSON: []json.RawMessage{json.RawMessage(path)}, Count: 2,
			Value: expr.Type{Kind: expr.Int, Size: 8}, Buckets: map[int]*Bucket{record.Powers{}.Of(expr.Type{Kind: expr.Int, Size: 8}, 5): {2, 10}},
		})
	}
	var few, many bytes.Buffer
	WriteHistograms(&few, h, rows[:2], " size")
	require.Equal(t, 2, strings.Count(few.String(), "app:done size path="))
	require.Contains(t, few.String(), "p99 5")
	WriteHistograms(&many, h, rows, " size")
	require.Equal(t, 1, strings.Count(many.String(), "app:done size\n"))
	require.Contains(t, many.String(), "COUNT  AVERAGE  P50  P99  path\n")
	require.NotContains(t, many.String(), "path=")
}
