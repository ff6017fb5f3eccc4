//go:build linux

package instrument

import (
	"database/sql"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/test/postgres"
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
	// endless is a query whose rows have no end.
	endless string
	// code returns the database's own code of an error.
	code func(error) string
	// own is the type of the driver's connections.
	own string
	// counts reports whether the driver's results are of a type that the package knows.
	counts bool
}

func sqliteDatabase() database {
	return database{
		driver:  "sqlite",
		source:  func(t *testing.T) string { return t.TempDir() + "/db" },
		endless: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
		code: func(err error) string {
			var own *sqlite.Error
			if !errors.As(err, &own) {
				return ""
			}
			return strconv.Itoa(own.Code())
		},
		own: "*sqlite.conn",
	}
}

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
	endless := "SELECT generate_series(1, 1000000000)"
	return []database{{
		driver: "postgres", source: source, endless: endless,
		code: func(err error) string {
			var own *pq.Error
			if !errors.As(err, &own) {
				return ""
			}
			return string(own.Code)
		},
		own: "*pq.conn", counts: true,
	}, {
		driver: "pgx", source: source, endless: endless,
		code: func(err error) string {
			var own *pgconn.PgError
			if !errors.As(err, &own) {
				return ""
			}
			return own.Code
		},
		own: "*stdlib.Conn", counts: true,
	}}
}

// text replaces the placeholders ? by those of the database.
func (d database) text(query string) string {
	if d.driver == "sqlite" {
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
	run := func(open func(driver, source string) (*sql.DB, error)) []string {
		db, err := open(d.driver, d.source(t))
		require.NoError(t, err)
		u := user{t: t, database: d, db: db}
		u.use()
		require.NoError(t, db.Close())
		return u.noticed
	}
	plain := run(sql.Open)
	require.Equal(t, plain, run(probes.Open))
	rec := probetest.Record(t, p)
	require.Equal(t, plain, run(probes.Open))

	unended := map[any]string{}
	for _, e := range rec.Events() {
		id := e.Arg(0).Any()
		if strings.HasSuffix(e.Probe().Name(), "__start") {
			require.NotContains(t, unended, id)
			unended[id] = e.String()
		} else {
			require.Contains(t, unended, id)
			delete(unended, id)
		}
	}
	require.Empty(t, unended)
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
	for _, e := range rec.Events(eventtest.Named("query__end")) {
		a := eventtest.Args(e)
		ends = append(ends, []any{a["text"], a["rows"], a["error"]})
	}
	created, inserted := int64(-1), int64(-1)
	if d.counts {
		created, inserted = 0, 2
	}
	require.Equal(t, [][]any{{create, created, ""}, {insert, inserted, ""}, {insert, int64(-1), failed.Error()}, {query, int64(2), ""}}, ends)
}
