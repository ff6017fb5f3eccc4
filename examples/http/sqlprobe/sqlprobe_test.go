//go:build linux

package sqlprobe

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/tracetest"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"
)

func open(t testing.TB) (*stapsdt.Provider, *Probes, *sql.DB) {
	t.Helper()
	p := stapsdt.NewProvider("sqlprobe", stapsdt.WithDir(t.TempDir()))
	probes := New(p, nil)
	require.NoError(t, p.Load())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	db := sql.OpenDB(probes.Connector(&sqlite.Driver{}, ":memory:"))
	db.SetMaxOpenConns(1) // each connection is a database of its own
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return p, probes, db
}

func TestNothingIsDoneWhileNobodyTraces(t *testing.T) {
	_, probes, db := open(t)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		q := probes.begin(t.Context(), "SELECT 1")
		q.end(1, nil)
	}))
	_, err := db.Exec("CREATE TABLE a (b INTEGER)")
	require.NoError(t, err)
	require.Zero(t, probes.ids.Load())
	raw, err := probes.Connector(&sqlite.Driver{}, ":memory:").Connect(t.Context())
	require.NoError(t, err)
	defer raw.Close()
	read, err := raw.(*conn).QueryContext(t.Context(), "SELECT 1", nil)
	require.NoError(t, err)
	defer read.Close()
	_, wrapped := read.(*rows)
	require.False(t, wrapped)
}

// columns are what a program can ask of a query's columns.
func columns(t *testing.T, db *sql.DB) (all []any) {
	t.Helper()
	read, err := db.Query("SELECT b, c FROM a WHERE b > ?", 1)
	require.NoError(t, err)
	defer read.Close()
	types, err := read.ColumnTypes()
	require.NoError(t, err)
	for _, c := range types {
		length, hasLength := c.Length()
		null, knowsNull := c.Nullable()
		precision, scale, hasPrecision := c.DecimalSize()
		all = append(all, c.Name(), c.DatabaseTypeName(), c.ScanType(), length, hasLength, null, knowsNull, precision, scale, hasPrecision)
	}
	for read.Next() {
		var b, c any
		require.NoError(t, read.Scan(&b, &c))
		all = append(all, b, c)
	}
	require.NoError(t, read.Err())
	return all
}

func TestTracedDriverBehavesTheSame(t *testing.T) {
	tracetest.NeedUprobes(t)
	p, probes, db := open(t)
	_, err := db.Exec("CREATE TABLE a (b INTEGER NOT NULL, c VARCHAR(9)); INSERT INTO a VALUES (1, 'x'), (2, 'y'), (3, NULL)")
	require.NoError(t, err)
	untraced := columns(t, db)
	require.Contains(t, untraced, "y")

	notes, err := tracetest.Notes(p.Path())
	require.NoError(t, err)
	counters := map[string]*tracetest.Counter{}
	for _, n := range notes {
		c, err := tracetest.CountUprobe(p.Path(), n.Offset)
		require.NoError(t, err)
		defer c.Close()
		counters[n.Name] = c
	}
	require.Equal(t, untraced, columns(t, db))

	prepared, err := db.Prepare("INSERT INTO a VALUES (?, ?)")
	require.NoError(t, err)
	defer prepared.Close()
	for range 3 {
		result, err := prepared.Exec(4, "z")
		require.NoError(t, err)
		changed, err := result.RowsAffected()
		require.NoError(t, err)
		require.EqualValues(t, 1, changed)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.Exec("DELETE FROM nowhere")
	require.Error(t, err)
	require.NoError(t, tx.Rollback())
	require.NoError(t, db.Ping())

	require.EqualValues(t, 5, probes.ids.Load())
	for name, c := range counters {
		n, err := c.Count()
		require.NoError(t, err)
		require.EqualValues(t, 5, n, name)
	}
}

// skippingDriver would rather have everything prepared, as a driver may.
type skippingDriver struct{ sqlite.Driver }

type skippingConn struct{ contextConn }

func (d *skippingDriver) Open(name string) (driver.Conn, error) {
	c, err := d.Driver.Open(name)
	if err != nil {
		return nil, err
	}
	return skippingConn{c.(contextConn)}, nil
}

func (skippingConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return nil, driver.ErrSkip
}

func (skippingConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return nil, driver.ErrSkip
}

func TestSkippedQueryIsReportedOnce(t *testing.T) {
	tracetest.NeedUprobes(t)
	p, probes, _ := open(t)
	db := sql.OpenDB(probes.Connector(&skippingDriver{}, ":memory:"))
	defer db.Close()
	db.SetMaxOpenConns(1)
	notes, err := tracetest.Notes(p.Path())
	require.NoError(t, err)
	for _, n := range notes {
		c, err := tracetest.CountUprobe(p.Path(), n.Offset)
		require.NoError(t, err)
		defer c.Close()
		defer func() {
			seen, err := c.Count()
			require.NoError(t, err)
			require.EqualValues(t, 3, seen, n.Name)
		}()
	}
	_, err = db.Exec("CREATE TABLE a (b INTEGER)")
	require.NoError(t, err)
	var one int
	require.NoError(t, db.QueryRow("SELECT 1").Scan(&one))
	_, err = db.Exec("no such thing")
	require.Error(t, err)
	require.EqualValues(t, 3, probes.ids.Load())
}

// oldDriver is one from before contexts.
type oldDriver struct{}

type oldConn struct{}

func (oldDriver) Open(string) (driver.Conn, error)  { return oldConn{}, nil }
func (oldConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (oldConn) Close() error                        { return nil }
func (oldConn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }

func TestDriverWithoutContextsIsRefused(t *testing.T) {
	_, probes, _ := open(t)
	_, err := probes.Connector(oldDriver{}, "").Connect(context.Background())
	require.ErrorContains(t, err, "sqlprobe.oldConn takes no contexts")
}

func BenchmarkQuery(b *testing.B) {
	_, probes, db := open(b)
	bare, err := sql.Open("sqlite", ":memory:")
	require.NoError(b, err)
	defer bare.Close()
	for name, db := range map[string]*sql.DB{"bare": bare, "idle": db} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var one int
				require.NoError(b, db.QueryRow("SELECT 1").Scan(&one))
			}
		})
	}
	require.Zero(b, probes.ids.Load())
}
