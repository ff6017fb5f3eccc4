//go:build go1.27

package sqlprobe

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

// scanning is a driver whose rows scan their columns themselves. database/sql does not call Next.
type scanning struct {
	driver.Conn
	sets bool
}

func (s scanning) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s scanning) Driver() driver.Driver                        { return nil }
func (s scanning) Close() error                                 { return nil }

func (s scanning) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	rows := &scanningRows{left: 2}
	if s.sets {
		return scanningSets{rows}, nil
	}
	return rows, nil
}

type scanningRows struct{ left int }

func (*scanningRows) Columns() []string         { return []string{"n"} }
func (*scanningRows) Close() error              { return nil }
func (*scanningRows) Next([]driver.Value) error { panic("Next") }

func (r *scanningRows) NextRow() error {
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	return nil
}

func (r *scanningRows) ScanColumn(scan driver.ScanContext, _ int, to any) error {
	return sql.ConvertAssign(scan, to, int64(r.left))
}

type scanningSets struct{ *scanningRows }

func (r scanningSets) HasNextResultSet() bool { return true }
func (r scanningSets) NextResultSet() error   { r.left = 1; return nil }

// TestScanningRows: rows that scan their columns do so while they are traced.
func TestScanningRows(t *testing.T) {
	for _, sets := range []bool{false, true} {
		run := func(p *stapsdt.Provider) (got []int) {
			db := sql.OpenDB(New(p).Connector(scanning{sets: sets}))
			defer db.Close()
			rows, err := db.QueryContext(t.Context(), "q")
			require.NoError(t, err)
			for range 2 {
				for rows.Next() {
					var n int
					require.NoError(t, rows.Scan(&n))
					got = append(got, n)
				}
				if !rows.NextResultSet() {
					break
				}
			}
			require.NoError(t, rows.Err())
			require.NoError(t, rows.Close())
			return got
		}
		p := stapsdt.NewProvider("scanning")
		r := probetest.Record(t, p)
		want := run(stapsdt.NewProvider("untraced"))
		require.Equal(t, want, run(p))
		events := r.Events() // of the connect, and the query
		require.Contains(t, events[len(events)-1].String(), fmt.Sprintf("rows=%d", len(want)))
	}
}
