package count

import (
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/stretchr/testify/require"
)

// TestTable: each subject has a row for each value of --by, with its own buckets, however many there are and in whatever order they come.
// What has no room is counted.
func TestTable(t *testing.T) {
	of, text := expr.Type{Kind: expr.Uint, Size: 8}, expr.Type{Kind: expr.String}
	keys := map[string]func(i int) []evaluate.Value{
		"none": func(int) []evaluate.Value { return nil },
		"number": func(i int) []evaluate.Value {
			return []evaluate.Value{{Item: evaluate.NewItem("n", of), Bits: uint64(i%1500) << (i % 2 * 54)}}
		},
		"text": func(i int) []evaluate.Value {
			return []evaluate.Value{{Item: evaluate.NewItem("s", text), Text: fmt.Sprint(i % 1500)[1:]}}
		},
		"both": func(i int) []evaluate.Value {
			return []evaluate.Value{{Item: evaluate.NewItem("n", of), Bits: uint64(i % 7)}, {Item: evaluate.NewItem("s", text), Text: fmt.Sprint(i % 3)}}
		},
		"many": func(i int) []evaluate.Value {
			return []evaluate.Value{{Item: evaluate.NewItem("n", of), Bits: uint64(i)}}
		},
	}
	for name, by := range keys {
		var table Table[Probe]
		rows, buckets, lost := map[string]uint64{}, map[string]query.Tally{}, uint64(0)
		for i := range 40_000 {
			subject := Probe{"p", fmt.Sprint("x", i%11%3)}
			if name == "none" {
				subject.Name = fmt.Sprint(i % 1201)
			}
			values, value := by(i), uint64(i%300)
			key := subject.String()
			for _, v := range values {
				key += " " + v.ForText()
			}
			if table.Add(table.Number(subject), values, query.Powers{}, of, value); rows[key] == 0 && len(rows) == maxRows {
				lost++
				continue
			}
			rows[key]++
			bucket := fmt.Sprint(key, "/", query.Powers{}.Of(of, value))
			tally := buckets[bucket]
			tally.Add(of, value)
			buckets[bucket] = tally
		}
		all, err := table.Rows()
		require.NoError(t, err)
		gotRows, gotBuckets := map[string]uint64{}, map[string]query.Tally{}
		for i, r := range all {
			key := r.Of.String()
			for _, text := range r.Text {
				key += " " + text
			}
			gotRows[key] = r.Count
			for bucket, tally := range r.Buckets {
				gotBuckets[fmt.Sprint(key, "/", bucket)] = *tally
			}
			require.True(t, i == 0 || all[i-1].Count >= r.Count, "the most frequent rows come first")
		}
		require.Equal(t, rows, gotRows, name)
		require.Equal(t, buckets, gotBuckets, name)
		require.Equal(t, lost, table.Lost, name)
		require.Equal(t, name == "many", lost > 0)
	}
}

// TestUnreadableRow: what could not be read is not counted as 0.
func TestUnreadableRow(t *testing.T) {
	item := evaluate.NewItem("n", expr.Type{Kind: expr.Int, Size: 8})
	var table Table[Probe]
	number := table.Number(Probe{"p", "x"})
	zero := table.Row(number, []evaluate.Value{{Item: item}})
	require.NotSame(t, zero, table.Row(number, []evaluate.Value{{Item: item, Missing: true}}))
	require.Same(t, zero, table.Row(number, []evaluate.Value{{Item: item}}))
}

// TestTypes: programs of several versions may have the same probe with arguments of other types.
// What looks different has a row of its own, and only that.
func TestTypes(t *testing.T) {
	value := func(of expr.Type, bits uint64) []evaluate.Value {
		return []evaluate.Value{{Item: evaluate.NewItem("n", of), Bits: bits}}
	}
	var table Table[Probe]
	number := table.Number(Probe{"p", "x"})
	for range 2 {
		for _, by := range [][]evaluate.Value{
			value(expr.Type{Kind: expr.Uint, Size: 8}, 0),
			value(expr.Type{Kind: expr.Int, Size: 8}, 0),
			value(expr.Type{Kind: expr.Int, Size: 4}, 0),
			value(expr.Type{Kind: expr.Bool, Size: 1}, 0),
			value(expr.Type{Kind: expr.String}, 0),
			value(query.Elapsed, 0),
		} {
			table.Add(number, by, nil, expr.Type{}, 0)
		}
	}
	all, err := table.Rows()
	require.NoError(t, err)
	rows := map[string]uint64{}
	for _, r := range all {
		rows[r.Text[0]] += r.Count
	}
	require.Equal(t, map[string]uint64{"0": 6, "false": 2, `""`: 2, "0s": 2}, rows)
	require.Len(t, all, len(rows))
}
