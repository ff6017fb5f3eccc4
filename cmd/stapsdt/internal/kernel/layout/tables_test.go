//go:build linux

package layout

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/stretchr/testify/require"
)

// words returns numbers as a program writes them.
func words(all ...uint64) (b []byte) {
	for _, w := range all {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

// TestTables: the rows of every layout are read as they were written, by batches and one at a time, with the parts of all processors.
func TestTables(t *testing.T) {
	testenv.NeedsRoot(t)
	require.NoError(t, rlimit.RemoveMemlock())
	at := uint64(5 * time.Second)
	item := value.Item{Type: expr.Type{Kind: expr.Uint, Size: 8}, Offset: KeyHeader, Size: 8}
	tally := query.Tally{Count: 7, Sum: query.Sum{Low: 30, High: -1}}
	minus := ^uint64(0)
	for name, c := range map[string]struct {
		Rows
		key   any
		value []byte
		want  Row
	}{
		"place":   {Rows{KeySize: KeyHeader}, uint32(3), words(7, 30, minus), Row{ID: 3, Tally: tally}},
		"alone":   {Rows{KeySize: KeyHeader + 8, KeyBuckets: 9}, uint32(4), words(7, 30, minus), Row{Bucket: 4, Tally: tally}},
		"keys":    {Rows{Keys: []value.Item{item}, KeySize: 16}, words(2, 11), words(7, 30, minus), Row{ID: 2, Tally: tally}},
		"buckets": {Rows{Keys: []value.Item{item}, KeySize: 24, KeyBuckets: 9}, words(2, 11, 8), words(7, 30, minus), Row{ID: 2, Bucket: 8, Tally: tally}},
		"stack":   {Rows{KeySize: 24, Stacks: true}, words(2, 44, 1<<32|5), words(7, 30, minus), Row{ID: 2, Process: 44, Stack: 1<<32 | 5, Tally: tally}},
		"nested":  {Rows{KeySize: 16, KeyBuckets: 9, Nested: true}, words(2, 8), words(7, 30, minus, 12, 15), Row{ID: 2, Bucket: 8, Own: 12, Whole: 15, Tally: tally}},
		"latest":  {Rows{KeySize: KeyHeader, Latest: true}, words(2), words(7, 30, minus, 12, 44, at), Row{ID: 2, Latest: 12, Process: 44, Time: time.Duration(at), Tally: tally}},
		"histogram": {Rows{KeySize: KeyHeader, Buckets: 2}, uint32(1), words(7, 30, minus, 12, 9, at, 12^9^at, 3, 4), Row{
			ID: 1, Buckets: []uint64{3, 4}, Exemplars: []Exemplar{{12, 9, At(at)}}, Tally: tally,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limits := range []Limits{{Rows: 100, Places: 10}, {Rows: 100, Places: 10, Bytes: 1, Shared: true}} {
				checkTables(t, &c.Rows, limits, c.key, c.value, c.want)
			}
		})
	}
}

// checkTables puts a row into new tables, and checks how it is read.
func checkTables(t *testing.T, l *Rows, limits Limits, key any, value []byte, want Row) {
	t.Helper()
	tables, err := l.NewTables(limits)
	require.NoError(t, err)
	defer tables.Close()
	put(t, tables.Rows, key, value)
	rows, err := tables.All(nil)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	var alone []Row
	require.NoError(t, eachAlone(tables.Rows, func(key, parts []byte) {
		var r Row
		if r.set(l, key, parts); r.Count > 0 {
			alone = append(alone, r)
		}
	}))
	require.Equal(t, rows, alone)
	if tables.Removable() {
		taken, err := tables.Take(rows[0].Key)
		require.NoError(t, err)
		require.Equal(t, rows[0], *taken)
	}
	found := rows[0]
	found.Key = nil
	require.Equal(t, want, found)
	if limits.Shared {
		put(t, tables.Rows, key, value) // again, if it was taken
		put(t, tables.Spare, uint32(SpareOverflow), value)
		again, err := tables.All(rows)
		require.NoError(t, err)
		require.Len(t, again, 2)
		require.Equal(t, rows[0], again[0], "the memory is used again")
		rows = again
		require.True(t, rows[len(rows)-1].Overflow)
		require.Equal(t, want.Tally, rows[len(rows)-1].Tally)
	}
}

// put puts an entry into a map, as the last processor does.
func put(t *testing.T, m *ebpf.Map, key any, value []byte) {
	t.Helper()
	if m.Type() != ebpf.PerCPUArray && m.Type() != ebpf.PerCPUHash {
		require.NoError(t, m.Put(key, value))
		return
	}
	each := make([][]byte, ebpf.MustPossibleCPU())
	for i := range each {
		each[i] = make([]byte, len(value))
	}
	each[len(each)-1] = value
	require.NoError(t, m.Put(key, each))
}
