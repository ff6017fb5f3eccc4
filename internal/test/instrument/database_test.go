//go:build linux

package instrument

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/test/postgres"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"
)

// database is a real one, with one of its drivers.
type database struct {
	driver string
	// source returns the data source of an empty database.
	source func(t *testing.T) string
}

func sqliteDatabase() database {
	return database{"sqlite", func(t *testing.T) string { return t.TempDir() + "/db" }}
}

func (d database) isSQLite() bool { return d.driver == "sqlite" }

// postgresDatabases are the drivers of a server, each of which has a schema of its own.
func postgresDatabases(s *postgres.Server) []database {
	source := func(t *testing.T) string {
		schema := "s" + regexp.MustCompile(`\W`).ReplaceAllString(strings.ToLower(t.Name()), "_")
		db, err := sql.Open("postgres", s.DSN())
		require.NoError(t, err)
		defer db.Close()
		for _, text := range []string{"DROP SCHEMA IF EXISTS " + schema + " CASCADE", "CREATE SCHEMA " + schema} {
			_, err = db.Exec(text)
			require.NoError(t, err)
		}
		return s.DSN() + " search_path=" + schema
	}
	return []database{{"postgres", source}, {"pgx", source}}
}

// code returns the database's own code of an error.
func code(err error) string {
	if own := (*sqlite.Error)(nil); errors.As(err, &own) {
		return strconv.Itoa(own.Code())
	}
	if own := (*pq.Error)(nil); errors.As(err, &own) {
		return string(own.Code)
	}
	if own := (*pgconn.PgError)(nil); errors.As(err, &own) {
		return own.Code
	}
	return ""
}

// text replaces the placeholders ? by those of the database.
func (d database) text(query string) string {
	if d.isSQLite() {
		return query
	}
	n := 0
	return regexp.MustCompile(`\?`).ReplaceAllStringFunc(query, func(string) string {
		n++
		return "$" + strconv.Itoa(n)
	})
}

// TestRealDatabases: programs notice the same of SQLite and PostgreSQL without the probes,
// with them, and while they are traced; and every query that starts has an end.
func TestRealDatabases(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testDatabase(t, sqliteDatabase()) })
	t.Run("postgresql", func(t *testing.T) {
		for _, d := range postgresDatabases(postgres.Start(t)) {
			t.Run(d.driver, func(t *testing.T) { testDatabase(t, d) })
		}
	})
}

func testDatabase(t *testing.T, d database) {
	p := eventtest.Provider(t, "databases")
	probes := sqlprobe.New(p)
	rec := eventtest.Same(t, p, func(probed bool) []string {
		open := sql.Open
		if probed {
			open = probes.Open
		}
		db, err := open(d.driver, d.source(t))
		require.NoError(t, err)
		u := user{t: t, database: d, db: db}
		u.use()
		require.NoError(t, db.Close())
		return u.noticed
	})
	eventtest.Paired(t, rec.Events())
	t.Run("reports", func(t *testing.T) { testReports(t, d, probes, rec) })
}

// testReports tests which rows are reported of statements that change some, and of a query.
func testReports(t *testing.T, d database, probes *sqlprobe.Probes, rec *probetest.Recorder) {
	db, err := probes.Open(d.driver, d.source(t))
	require.NoError(t, err)
	rec.Reset()
	create, insert, query := "CREATE TABLE n (i INTEGER UNIQUE)", d.text("INSERT INTO n VALUES (?), (?)"), "SELECT i FROM n"
	_, err = db.ExecContext(t.Context(), create)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), insert, 1, 2)
	require.NoError(t, err)
	_, failed := db.ExecContext(t.Context(), insert, 2, 3)
	require.Error(t, failed)
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	for rows.Next() {
	}
	require.NoError(t, db.Close())
	var ends [][]any
	for _, e := range rec.Events(probetest.OnlyNamed("query__end")) {
		a := eventtest.Args(e)
		ends = append(ends, []any{a["text"], a["rows"], a["error"]})
	}
	created, inserted := int64(-1), int64(-1)
	if !d.isSQLite() { // whose results are of a type that the package knows
		created, inserted = 0, 2
	}
	require.Equal(t, [][]any{{create, created, ""}, {insert, inserted, ""}, {insert, int64(-1), failed.Error()}, {query, int64(2), ""}}, ends)
}

// user uses a database as programs do, and notes all that a program can notice.
type user struct {
	database
	t       *testing.T
	db      *sql.DB
	noticed []string
}

func (u *user) note(format string, args ...any) {
	u.noticed = append(u.noticed, fmt.Sprintf(format, args...))
}

// failed notes an error.
func (u *user) failed(what string, err error) bool {
	if err != nil {
		u.note("%s: %v (%T, code %q)", what, err, err, code(err))
	}
	return err != nil
}

func (u *user) executed(r sql.Result, err error) {
	if u.failed("exec", err) {
		return
	}
	n, err := r.RowsAffected()
	u.note("changed: %v %v", n, err)
	n, err = r.LastInsertId()
	u.note("inserted: %v %v", n, err)
}

func (u *user) read(r *sql.Rows, err error) {
	if u.failed("query", err) {
		return
	}
	for more := true; more; more = r.NextResultSet() {
		types, err := r.ColumnTypes()
		u.failed("types", err)
		values := make([]any, len(types))
		for i, c := range types {
			length, hasLength := c.Length()
			null, knowsNull := c.Nullable()
			precision, scale, hasPrecision := c.DecimalSize()
			u.note("%v %v %v %v %v %v %v %v %v %v", c.Name(), c.DatabaseTypeName(), c.ScanType(), length, hasLength, null, knowsNull, precision, scale, hasPrecision)
			values[i] = new(any)
		}
		for r.Next() {
			u.failed("scan", r.Scan(values...))
			for _, v := range values {
				u.note("%T %[1]v", *v.(*any))
			}
		}
		u.failed("rows", r.Err())
	}
	u.failed("close", r.Close())
}

func (u *user) use() {
	ctx, db := u.t.Context(), u.db
	// One connection, so that what its session keeps is seen by what follows.
	db.SetMaxOpenConns(1)
	u.failed("ping", db.PingContext(ctx))
	u.executed(db.ExecContext(ctx, "CREATE TABLE item (id INTEGER PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE, price NUMERIC(8, 2), photo "+map[bool]string{true: "BLOB", false: "BYTEA"}[u.isSQLite()]+", since TIMESTAMP, old BOOLEAN)"))
	insert := u.text("INSERT INTO item VALUES (?, ?, ?, ?, ?, ?)")
	since := time.Date(2026, 11, 22, 7, 40, 0, 0, time.UTC)
	u.executed(db.ExecContext(ctx, insert, 1, "apple", 1.25, []byte{0, 1, 255}, since, true))
	u.executed(db.ExecContext(ctx, insert, int64(2), sql.NullString{String: "pear", Valid: true}, nil, nil, nil, sql.NullBool{}))
	u.executed(db.ExecContext(ctx, insert, 3, "apple", 1, nil, nil, false)) // not unique
	u.executed(db.ExecContext(ctx, insert, 3))                              // too few arguments
	u.executed(db.ExecContext(ctx, insert, 3, complex(1, 2), 1, nil, nil, false))
	u.executed(db.ExecContext(ctx, "NONSENSE"))
	_, err := db.ExecContext(ctx, "") // SQLite's result is nil
	u.failed("exec", err)
	u.read(db.QueryContext(ctx, "SELECT * FROM item ORDER BY id"))
	u.read(db.QueryContext(ctx, u.text("SELECT name FROM item WHERE id = ?"), 2))
	u.read(db.QueryContext(ctx, u.text("SELECT name FROM item WHERE id = ?"), sql.Named("id", 2)))
	u.read(db.QueryContext(ctx, "SELECT name FROM item WHERE id = :id", sql.Named("id", 2)))
	u.read(db.QueryContext(ctx, "SELECT nothing FROM item"))
	u.read(db.QueryContext(ctx, "SELECT 1; SELECT 'two', 3"))
	u.read(db.QueryContext(ctx, u.text("SELECT name FROM item WHERE id = ?"), "x"))
	var name string
	u.failed("row", db.QueryRowContext(ctx, u.text("SELECT name FROM item WHERE id = ?"), 99).Scan(&name))
	u.failed("row", db.QueryRowContext(ctx, u.text("SELECT price FROM item WHERE id = ?"), 2).Scan(&name)) // NULL
	u.prepare()
	u.transact()
	u.cancel()
	s := db.Stats()
	u.note("pool: %d open, %d in use, %d closed", s.OpenConnections, s.InUse, s.MaxIdleClosed+s.MaxIdleTimeClosed+s.MaxLifetimeClosed)
}

func (u *user) prepare() {
	ctx := u.t.Context()
	_, err := u.db.PrepareContext(ctx, "SELECT nothing FROM")
	u.failed("prepare", err)
	get, err := u.db.PrepareContext(ctx, u.text("SELECT name, since FROM item WHERE id = ?"))
	require.NoError(u.t, err)
	for _, args := range [][]any{{1}, {99}, {nil}, {"x"}, {complex(1, 2)}, {}} {
		u.read(get.QueryContext(ctx, args...))
	}
	u.executed(get.ExecContext(ctx, 1))
	set, err := u.db.PrepareContext(ctx, u.text("UPDATE item SET price = ? WHERE id < ?"))
	require.NoError(u.t, err)
	u.executed(set.ExecContext(ctx, 3, 100))
	u.failed("close", errors.Join(set.Close(), get.Close()))
	u.executed(set.ExecContext(ctx, 4, 100)) // closed
}

func (u *user) transact() {
	ctx := u.t.Context()
	count := func() { u.read(u.db.QueryContext(ctx, "SELECT count(*) FROM item")) }
	for i, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
		for j, opts := range []*sql.TxOptions{nil, {Isolation: sql.LevelSerializable}, {ReadOnly: true}, {Isolation: sql.LevelLinearizable}} {
			tx, err := u.db.BeginTx(ctx, opts)
			if u.failed("begin", err) {
				continue
			}
			u.executed(tx.ExecContext(ctx, u.text("INSERT INTO item (id, name) VALUES (?, ?)"), 10+4*i+j, fmt.Sprint("plum", i, j)))
			u.read(tx.QueryContext(ctx, "SELECT id FROM item WHERE id > 9 ORDER BY id"))
			u.failed("end", end(tx))
			u.failed("end", end(tx)) // twice
			count()
		}
	}
	// A statement that fails, and those after it.
	tx, err := u.db.BeginTx(ctx, nil)
	require.NoError(u.t, err)
	u.executed(tx.ExecContext(ctx, "INSERT INTO item (id, name) VALUES (1, 'again')"))
	u.executed(tx.ExecContext(ctx, "INSERT INTO item (id, name) VALUES (50, 'after')"))
	u.failed("commit", tx.Commit())
	count()
}

// cancel uses contexts that are done, before and during a query. What an interrupted query
// fails with is a matter of time.
func (u *user) cancel() {
	ctx, cancel := context.WithCancel(u.t.Context())
	endless := "SELECT generate_series(1, 1000000000)"
	if u.isSQLite() {
		endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
	}
	r, err := u.db.QueryContext(ctx, endless)
	require.NoError(u.t, err)
	require.True(u.t, r.Next())
	cancel()
	for r.Next() {
	}
	u.note("interrupted: %v", r.Err() != nil)
	_ = r.Close()
	u.executed(u.db.ExecContext(ctx, "DELETE FROM item"))
	u.read(u.db.QueryContext(ctx, "SELECT 1"))
	_, err = u.db.BeginTx(ctx, nil)
	u.failed("begin", err)
	_, err = u.db.PrepareContext(ctx, "SELECT 1")
	u.failed("prepare", err)

	ctx, cancel = context.WithCancel(u.t.Context())
	tx, err := u.db.BeginTx(ctx, nil)
	require.NoError(u.t, err)
	u.executed(tx.ExecContext(ctx, "DELETE FROM item"))
	cancel() // rolls back
	require.Eventually(u.t, func() bool { return tx.Commit() != nil }, testenv.Patience, time.Millisecond)
	u.read(u.db.QueryContext(u.t.Context(), "SELECT count(*) FROM item"))
}
