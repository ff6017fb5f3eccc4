package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"

	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"
)

// tables creates the tables, and the first item. PostgreSQL counts in a SERIAL, not an INTEGER.
var tables = []string{
	"CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
	"CREATE TABLE IF NOT EXISTS ordered (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
	"INSERT INTO item (name) VALUES ('apple') ON CONFLICT DO NOTHING",
}

// openDatabase opens a PostgreSQL database, whose source begins with postgres://, or a file
// of SQLite.
func openDatabase(ctx context.Context, source string, queries *sqlprobe.Probes) (*sql.DB, error) {
	driver, connections, key := "sqlite", 1, "INTEGER" // SQLite allows one writer at a time: requests wait for it in the pool
	if strings.HasPrefix(source, "postgres://") {
		driver, connections, key = "postgres", 4, "SERIAL"
	}
	db, err := queries.Open(driver, source)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	for _, text := range tables {
		if _, err := db.ExecContext(ctx, strings.Replace(text, "INTEGER", key, 1)); err != nil {
			return nil, errors.Join(fmt.Errorf("create tables: %w", err), db.Close())
		}
	}
	return db, nil
}
