//go:build linux

package metric

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rule"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/rules"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/cilium/ebpf/rlimit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFull: one user alone can have all series of open operations, and leaves as many to others.
func TestFull(t *testing.T) {
	m := &Traced{passes: 1, store: newStore(time.Time{})}
	m.Series = 8
	c := &collection{Traced: m, owned: map[uint64]int{}}
	begin := func(owner uint64, n int) (series int) {
		for i := range n {
			labels := []string{fmt.Sprint(owner, i)}
			if c.full(owner, labels, cgroup.Container{}) {
				labels = nil
			} else {
				series++
			}
			c.at(labels, cgroup.Container{})
		}
		return series
	}
	assert.Equal(t, 8, begin(1, 1000))
	assert.Equal(t, 3, begin(2, 3))
	assert.Equal(t, 2, begin(3, 1000))
	assert.False(t, c.full(3, []string{"1 7"}, cgroup.Container{}), "others have the series already")
}

// TestReadAgain: each call of Read has the numbers and the series of its own moment, and does not change what an earlier
// one has returned.
func TestReadAgain(t *testing.T) {
	testenv.NeedsRoot(t)
	require.NoError(t, rlimit.RemoveMemlock())
	item := value.Item{Type: expr.Type{Kind: expr.Uint, Size: 8}, Offset: layout.KeyHeader, Size: 8}
	rows := layout.Rows{Keys: []value.Item{item}, KeySize: 16}
	for _, kind := range []rules.Kind{rules.Counter, rules.Gauge} {
		rows.Latest = kind == rules.Gauge
		table, err := rows.NewTables(layout.Limits{Rows: 10, Bytes: 1})
		require.NoError(t, err)
		defer table.Close()
		m := &Traced{
			definition: define(rules.Metric{Kind: kind, By: []rules.Label{{Name: "n", Expr: "n"}}}, true), group: -1,
			tables: map[string]*layout.Tables{"": table}, store: newStore(time.Time{}), known: map[rowKey]*knownRow{},
		}
		for range 2 { // the rows of two programs
			m.shapes = append(m.shapes, &shape{Aggregate: &bpf.Aggregate{Rows: rows}, tables: table, scale: 1})
		}
		words := func(all ...uint64) (b []byte) {
			for _, w := range all {
				b = binary.NativeEndian.AppendUint64(b, w)
			}
			return b
		}
		put := func(program, n, value uint64) {
			row := words(value, 0, 0)
			if rows.Latest {
				row = words(1, 0, 0, value, uint64(os.Getpid()), value)
			}
			require.NoError(t, table.Rows.Put(words(program, n), row))
		}
		var readings []Reading
		values := func(r Reading) map[string]float64 {
			all := map[string]float64{}
			for _, s := range r.Series {
				all[s.Values[0]] += s.Value
			}
			return all
		}
		for _, want := range []map[string]float64{
			{}, {"1": 5, "2": 6}, {"1": 15, "2": 6}, {"2": 7}, {"1": 1, "2": 7}, {},
		} {
			switch len(readings) {
			case 1:
				put(0, 1, 5)
				put(0, 2, 6)
			case 2:
				put(0, 1, 5)
				put(1, 1, 10)
				if rows.Latest {
					put(1, 1, 15)
				}
			case 3:
				put(0, 2, 7)
				require.NoError(t, table.Rows.Delete(words(0, 1)))
				require.NoError(t, table.Rows.Delete(words(1, 1)))
			case 4:
				put(0, 1, 1)
			case 5:
				require.NoError(t, table.Rows.Delete(words(0, 1)))
				require.NoError(t, table.Rows.Delete(words(0, 2)))
			}
			r, err := m.Read()
			require.NoError(t, err)
			require.Equal(t, want, values(r), "%v %d", kind, len(readings))
			readings = append(readings, r)
			require.Len(t, m.series, len(want))
		}
		require.Empty(t, m.known)
		require.Equal(t, map[string]float64{"1": 15, "2": 6}, values(readings[2]))
	}
}

// TestWorkloadExpires: a series that many pods share does not fall when the rows of the earlier ones are dropped.
func TestWorkloadExpires(t *testing.T) {
	testenv.NeedsRoot(t)
	require.NoError(t, rlimit.RemoveMemlock())
	item := value.Item{Type: expr.Type{Kind: expr.Uint, Size: 8}, Offset: layout.KeyHeader, Size: 8}
	rows := layout.Rows{Keys: []value.Item{item}, KeySize: 16}
	table, err := rows.NewTables(layout.Limits{Rows: 10, Bytes: 1})
	require.NoError(t, err)
	defer table.Close()
	dir := t.TempDir()
	const uid = "3b6e6d3c-4a0e-4b43-8f5c-5a6d3b6e6d3c"
	id := func(group uint64) string { return fmt.Sprintf("%064x", group) }
	groups := cgroup.New(func(group uint64) string { return "/kubepods/pod" + uid + "/" + id(group) }, cgroup.NewPods(dir))
	m := &Traced{
		Base:       rule.Base{Host: &rule.Host{Cgroups: groups}},
		definition: define(rules.Metric{Process: []string{rules.Workload}, Series: 1, Expire: time.Minute}, true), group: 0,
		tables: map[string]*layout.Tables{"": table}, store: newStore(time.Time{}), known: map[rowKey]*knownRow{},
	}
	m.shapes = []*shape{{Aggregate: &bpf.Aggregate{Rows: rows}, tables: table, scale: 1}}
	now := time.Now()
	const first = 1 << 40
	for n := range uint64(20) {
		require.NoError(t, os.Symlink(fmt.Sprintf("/var/log/pods/shop_backup-2937384%d-x2b5p_%s/app/0.log", n%10, uid), filepath.Join(dir,
			fmt.Sprintf("backup-2937384%d-x2b5p_shop_app-%s.log", n%10, id(first+n)))))
		var key, row []byte
		for _, w := range []uint64{0, first + n} {
			key = binary.NativeEndian.AppendUint64(key, w)
		}
		for _, w := range []uint64{5, 0, 0} {
			row = binary.NativeEndian.AppendUint64(row, w)
		}
		require.NoError(t, table.Rows.Put(key, row))
		for range 2 {
			require.NoError(t, m.purgeRows(now))
			r, err := m.Read()
			require.NoError(t, err)
			require.Len(t, r.Series, 2, "one is of what is in no pod")
			require.Equal(t, []string{"", "backup", "", ""}, r.Series[0].Values)
			require.EqualValues(t, 5*(n+1), r.Series[0].Value)
			require.EqualValues(t, 5*(n+1), r.Events)
			now = now.Add(m.Expire / 2)
		}
	}
	require.Empty(t, m.retired)
	require.True(t, m.created.IsZero(), "nothing was dropped")
}
