package sqlprobe

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

// use does with a database what programs do, and returns all that they can notice.
func use(t *testing.T, db *sql.DB) (noticed []string) {
	note := func(format string, args ...any) { noticed = append(noticed, fmt.Sprintf(format, args...)) }
	ctx := t.Context()
	db.SetMaxOpenConns(1)
	note("ping: %v", db.PingContext(ctx))
	read := func(r *sql.Rows, err error) {
		if err != nil {
			note("query: %v", err)
			return
		}
		types, err := r.ColumnTypes()
		note("types: %v", err)
		for _, c := range types {
			length, hasLength := c.Length()
			null, knowsNull := c.Nullable()
			precision, scale, hasPrecision := c.DecimalSize()
			note("%v %v %v %v %v %v %v %v %v %v", c.Name(), c.DatabaseTypeName(), c.ScanType(), length, hasLength, null, knowsNull, precision, scale, hasPrecision)
		}
		for more := true; more; more = r.NextResultSet() {
			for r.Next() {
				var a any
				note("scan: %v %v", r.Scan(&a), a)
			}
			note("rows: %v", r.Err())
		}
		note("rows: %v %v", r.Close(), r.Err())
	}
	execute := func(r sql.Result, err error) {
		if err != nil {
			note("exec: %v", err)
			return
		}
		n, err := r.RowsAffected()
		note("changed: %v %v", n, err)
	}
	for _, text := range []string{"good", "fail", "cut", "sets", "unknown", "unprepared", "two"} {
		execute(db.ExecContext(ctx, text, 1, "x"))
		read(db.QueryContext(ctx, text, int8(2)))
	}
	for _, arg := range []any{object{"o"}, sql.Named("n", 1), complex(1, 2)} {
		execute(db.ExecContext(ctx, "good", arg))
		read(db.QueryContext(ctx, "good", arg))
	}
	prepared, err := db.PrepareContext(ctx, "good")
	require.NoError(t, err)
	for _, arg := range []any{1, object{"o"}, sql.Named("n", 1)} {
		execute(prepared.ExecContext(ctx, arg))
		read(prepared.QueryContext(ctx, arg))
	}
	note("close: %v", prepared.Close())
	for _, opts := range []*sql.TxOptions{nil, {Isolation: sql.LevelSerializable}, {ReadOnly: true}} {
		tx, err := db.BeginTx(ctx, opts)
		if err != nil {
			note("begin: %v", err)
			continue
		}
		execute(tx.ExecContext(ctx, "good"))
		note("commit: %v", tx.Commit())
	}
	limited, cancel := context.WithCancel(ctx)
	tx, err := db.BeginTx(limited, nil)
	require.NoError(t, err)
	note("rollback: %v", tx.Rollback())
	cancel()
	_, err = db.ExecContext(limited, "good")
	note("cancelled: %v", err)
	one, err := db.Conn(ctx)
	require.NoError(t, err)
	require.NoError(t, one.Raw(func(c any) error { useRaw(ctx, c.(driver.Conn), note); return nil }))
	require.NoError(t, one.Close())
	note("driver: %T", db.Driver())
	return noticed
}

// useRaw calls the methods that a driver's connection has, and notes the types of the values that it
// gets and all that these can do.
func useRaw(ctx context.Context, c driver.Conn, note func(format string, args ...any)) {
	own := c
	if to, ok := c.(interface{ Unwrap() driver.Conn }); ok {
		own = to.Unwrap()
	}
	got := func(v any, err error) {
		note("raw: %T %v", v, err)
		for i := range reflect.TypeOf(v).NumMethod() {
			note("raw: %s", reflect.TypeOf(v).Method(i).Name)
		}
	}
	got(own, nil)
	s, err := c.Prepare("good")
	got(s, err)
	x, err := c.Begin() //lint:ignore SA1019 deprecated, but there
	got(x, err)
	if _, ok := own.(driver.ConnPrepareContext); ok {
		s, err = c.(driver.ConnPrepareContext).PrepareContext(ctx, "good")
		got(s, err)
	}
	if _, ok := own.(driver.ConnBeginTx); ok {
		x, err = c.(driver.ConnBeginTx).BeginTx(ctx, driver.TxOptions{})
		got(x, err)
	}
	r, err := s.Query(nil) //lint:ignore SA1019 deprecated, but there
	got(r, err)
	if _, ok := own.(driver.QueryerContext); ok {
		if r, err = c.(driver.QueryerContext).QueryContext(ctx, "sets", nil); err == nil {
			got(r, err)
		}
	}
	if _, ok := own.(driver.ExecerContext); ok {
		if result, err := c.(driver.ExecerContext).ExecContext(ctx, "good", nil); err == nil {
			got(result, err)
		}
	}
	note("raw: %v", x.Rollback())
}

// TestDriversBehaveTheSame: for each driver, programs notice the same, and database/sql calls
// the same, without the probes, with them, and while they are traced.
func TestDriversBehaveTheSame(t *testing.T) {
	for name, connection := range drivers {
		t.Run(name, func(t *testing.T) {
			p := eventtest.Provider(t, "sqlprobe")
			probes := New(p)
			rec := eventtest.Same(t, p, func(probed bool) (noticed [2][]string) {
				c := testConnector{&calls{}, connection}
				db := sql.OpenDB(c)
				if probed {
					db = sql.OpenDB(probes.Connector(c))
				}
				noticed[0] = use(t, db)
				require.NoError(t, db.Close())
				noticed[1] = c.calls.list
				return noticed
			})
			eventtest.Paired(t, rec.Events())
			require.NotEmpty(t, rec.Events(probetest.OnlyNamed("query__end")))
		})
	}
}

// TestQueries are reported with their rows and errors, also if the driver has them prepared.
func TestQueries(t *testing.T) {
	for _, name := range []string{"full", "skipping", "legacy", "bare"} {
		t.Run(name, func(t *testing.T) {
			p, rec := eventtest.Recorded(t, "sqlprobe")
			db := sql.OpenDB(New(p).Connector(testConnector{&calls{}, drivers[name]}))
			defer db.Close()
			ends := func(do func()) (ends []any) {
				rec.Reset()
				do()
				for _, e := range rec.Events(probetest.OnlyNamed("query__end")) {
					a := eventtest.Args(e)
					ends = append(ends, a["text"], a["rows"], a["error"])
				}
				return ends
			}
			exec := func(text string) func() { return func() { _, _ = db.Exec(text) } }
			query := func(text string, n int) func() {
				return func() {
					r, err := db.Query(text)
					if err != nil {
						return
					}
					for range n {
						r.Next()
					}
					require.NoError(t, r.Close())
				}
			}
			require.Equal(t, []any{"good", int64(3), ""}, ends(exec("good")))
			require.Equal(t, []any{"unknown", int64(-1), ""}, ends(exec("unknown")))
			require.Equal(t, []any{"fail", int64(-1), "broken"}, ends(exec("fail")))
			require.Equal(t, []any{"fail", int64(-1), "broken"}, ends(query("fail", 0)))
			require.Equal(t, []any{"good", int64(2), ""}, ends(query("good", 3)))
			require.Equal(t, []any{"good", int64(1), ""}, ends(query("good", 1)))
			require.Equal(t, []any{"cut", int64(-1), "broken"}, ends(query("cut", 3)))
			var closeRows func() error
			require.Empty(t, ends(func() {
				r, err := db.Query("good")
				require.NoError(t, err)
				closeRows = r.Close
			}))
			require.NoError(t, closeRows())
			if name == "skipping" {
				require.Equal(t, []any{"two", int64(-1), "not executed"}, ends(exec("two")))
				require.Equal(t, []any{"unprepared", int64(-1), "broken"}, ends(exec("unprepared")))
			}
		})
	}
}

// TestCancelledQuery: rows that database/sql closes because the context is done end. Their
// context, which can be of any type, is not asked why.
func TestCancelledQuery(t *testing.T) {
	p, rec := eventtest.Recorded(t, "sqlprobe")
	db := sql.OpenDB(New(p).Connector(testConnector{&calls{}, drivers["full"]}))
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := db.QueryContext(ctx, "endless")
	require.NoError(t, err)
	require.True(t, r.Next())
	cancel()
	for r.Next() {
	}
	require.ErrorIs(t, r.Err(), context.Canceled)
	require.NoError(t, r.Close())
	ends := rec.Events(probetest.OnlyNamed("query__end"))
	require.Len(t, ends, 1)
	require.Equal(t, "", eventtest.Args(ends[0])["error"])
}

func TestConnectsAndTransactions(t *testing.T) {
	p, rec := eventtest.Recorded(t, "sqlprobe")
	probes := New(p)
	db := sql.OpenDB(probes.Connector(testConnector{&calls{}, drivers["full"]}))
	defer db.Close()
	tx, err := db.Begin()
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.ErrorIs(t, tx.Rollback(), sql.ErrTxDone)
	tx, err = db.Begin()
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	require.Len(t, rec.Events(probetest.OnlyNamed("connect__start")), 1)
	require.Equal(t, "", eventtest.Args(rec.Events(probetest.OnlyNamed("connect__end"))[0])["error"])
	ends := rec.Events(probetest.OnlyNamed("transaction__end"))
	require.Len(t, ends, 2)
	require.Equal(t, true, eventtest.Args(ends[0])["committed"])
	require.Equal(t, false, eventtest.Args(ends[1])["committed"])

	rec.Reset()
	broken := sql.OpenDB(probes.Connector(testConnector{calls: &calls{}}))
	defer broken.Close()
	require.ErrorIs(t, broken.Ping(), errBroken)
	require.Equal(t, "broken", eventtest.Args(rec.Events(probetest.OnlyNamed("connect__end"))[0])["error"])
}

// register registers two drivers, once in a process, however often the test runs.
var register = sync.OnceFunc(func() {
	c := testConnector{&calls{}, drivers["full"]}
	sql.Register("sqlprobe-test", testDriver{c})
	sql.Register("sqlprobe-test-context", contextDriver{testDriver{c}})
})

// TestOpen: it opens what sql.Open does, with either kind of driver.
func TestOpen(t *testing.T) {
	register()
	probes := New(nil)
	for _, name := range []string{"sqlprobe-test", "sqlprobe-test-context"} {
		db, err := probes.Open(name, "good")
		require.NoError(t, err)
		_, err = db.Exec("good")
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
	_, err := probes.Open("sqlprobe-test-context", "bad")
	require.ErrorIs(t, err, errBroken)
	_, err = probes.Open("sqlprobe-none", "")
	require.ErrorContains(t, err, `unknown driver "sqlprobe-none"`)
}

type contextDriver struct{ testDriver }

func (d contextDriver) OpenConnector(name string) (driver.Connector, error) {
	if name == "bad" {
		return nil, errBroken
	}
	return d.c, nil
}

// TestConnectorCloses: sql.DB.Close closes a connector that can be closed, and no other.
func TestConnectorCloses(t *testing.T) {
	probes := New(nil)
	c := &closingConnector{}
	require.ErrorIs(t, sql.OpenDB(probes.Connector(c)).Close(), errBroken)
	require.True(t, c.closed)
	_, closes := probes.Connector(testConnector{}).(io.Closer)
	require.False(t, closes)
}

type closingConnector struct {
	testConnector
	closed bool
}

func (c *closingConnector) Close() error { c.closed = true; return errBroken }

// TestIdle: nothing is made or wrapped while nothing traces.
func TestIdle(t *testing.T) {
	probes := New(eventtest.Provider(t, "sqlprobe"))
	c, err := probes.Connector(testConnector{&calls{}, drivers["full"]}).Connect(t.Context())
	require.NoError(t, err)
	ctx := t.Context()
	r, err := c.(driver.QueryerContext).QueryContext(ctx, "good", nil)
	require.NoError(t, err)
	require.IsType(t, &bareRows{}, r)
	x, err := c.(driver.ConnBeginTx).BeginTx(ctx, driver.TxOptions{})
	require.NoError(t, err)
	require.IsType(t, bareTx{}, x)
	testenv.NotRaced(t, "the detector allocates")
	failing := errors.New("not looked at")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		got, q := probes.begin(ctx, "text")
		if got != ctx {
			t.Fatal("the context is another one")
		}
		_, _ = q.result(nil, failing)
		_, _ = q.rows(nil, failing)
	}))
}
