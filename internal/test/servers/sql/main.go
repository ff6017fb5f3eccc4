// Command sql is a service that does a transaction of pgbench for each request. Its arguments are an address to listen on and
// how to connect to PostgreSQL.
package main

import (
	"context"
	"database/sql"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"

	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
	"github.com/go-stapsdt/stapsdt/internal/test/servers/way"

	"github.com/XSAM/otelsql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jackc/pgx/v5/tracelog"
)

var probes = sqlprobe.New(way.App)

func main() {
	db, err := open(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxIdleConns(32)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if err := transact(r.Context(), db); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}

func open(source string) (*sql.DB, error) {
	switch way.Get() {
	case way.Probes:
		return probes.Open("pgx", source)
	case way.Otel:
		return otelsql.Open("pgx", source, otelsql.WithTracerProvider(way.Tracers()))
	case way.Slog:
		config, err := pgx.ParseConfig(source)
		if err != nil {
			return nil, err
		}
		to := way.Logger()
		config.Tracer = &tracelog.TraceLog{LogLevel: tracelog.LogLevelInfo, Logger: tracelog.LoggerFunc(
			func(ctx context.Context, _ tracelog.LogLevel, message string, data map[string]any) {
				attrs := make([]slog.Attr, 0, len(data))
				for name, value := range data {
					attrs = append(attrs, slog.Any(name, value))
				}
				to.LogAttrs(ctx, slog.LevelInfo, message, attrs...)
			})}
		return stdlib.OpenDB(*config), nil
	}
	return sql.Open("pgx", source)
}

// transact does what pgbench --builtin=simple-update does.
func transact(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	account, teller, delta := 1+rand.IntN(1_000_000), 1+rand.IntN(100), rand.IntN(10_001)-5000
	_, err = tx.ExecContext(ctx, "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", delta, account)
	if err != nil {
		return err
	}
	var balance int
	err = tx.QueryRowContext(ctx, "SELECT abalance FROM pgbench_accounts WHERE aid = $1", account).Scan(&balance)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
		VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)`, teller, 1+teller/10, account, delta)
	if err != nil {
		return err
	}
	return tx.Commit()
}
