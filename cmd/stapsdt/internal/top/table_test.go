//go:build linux

package top

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"

	"github.com/stretchr/testify/require"
)

// TestRows: a table that is full has room again when rows are idle, and until then an operation without a row does not search it.
func TestRows(t *testing.T) {
	table, kind, item := newTable(nil, nil), &replay.Kind{Name: "p:op"}, &layout.Item{}
	next := uint64(0)
	add := func() bool {
		next++
		r := table.row(kind, []replay.Value{{Item: item, Bits: next}})
		if r != nil {
			r.count++
			r.slots[table.slot].count++
		}
		return r != nil
	}
	for range maxRows {
		require.True(t, add())
	}
	require.False(t, add())
	require.True(t, table.full)
	require.NotNil(t, table.row(kind, []replay.Value{{Item: item, Bits: 1}}))
	table.rows["open"] = &row{kind: kind, open: 1}
	for n := range slots {
		require.False(t, add(), n)
		table.turn(time.Duration(n + 1))
		require.False(t, table.full)
	}
	require.True(t, add())
	require.Equal(t, uint64(maxRows), table.others)
	require.Len(t, table.rows, 2)
	require.Contains(t, table.rows, "open")
}
