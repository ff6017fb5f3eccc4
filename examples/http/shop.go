package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
	_ "modernc.org/sqlite"
)

// schema starts with one item.
const schema = `
	CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
	INSERT OR IGNORE INTO item VALUES (1, 'apple')`

// report is slow, as reports are: it counts up to a number.
const report = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT sum(i) FROM n`

// shop sells the items of a database.
type shop struct{ db *sql.DB }

func openShop(ctx context.Context, file string, queries *sqlprobe.Probes) (*shop, error) {
	db, err := queries.Open("sqlite", file)
	if err != nil {
		return nil, err
	}
	// SQLite allows one writer at a time. Requests wait for it in the pool.
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("create tables: %w", err), db.Close())
	}
	return &shop{db}, nil
}

func (s *shop) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", s.item)
	mux.HandleFunc("POST /items", s.add)
	mux.HandleFunc("GET /report", s.report)
	mux.HandleFunc("GET /supplier", s.supplier)
	return mux
}

// item shows one item.
func (s *shop) item(w http.ResponseWriter, r *http.Request) {
	var name string
	err := s.db.QueryRowContext(r.Context(), "SELECT name FROM item WHERE id = ?", r.PathValue("id")).Scan(&name)
	answer(w, name, err)
}

// add adds the item ?name=.
func (s *shop) add(w http.ResponseWriter, r *http.Request) {
	done, err := s.db.ExecContext(r.Context(), "INSERT INTO item (name) VALUES (?)", r.FormValue("name"))
	var id int64
	if err == nil {
		id, err = done.LastInsertId()
	}
	answer(w, id, err)
}

// report does work: ?n= says how much.
func (s *shop) report(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.FormValue("n"))
	var sum int64
	if err == nil {
		err = s.db.QueryRowContext(r.Context(), report, n).Scan(&sum)
	}
	answer(w, sum, err)
}

// supplier waits for a supplier, for ?ms= milliseconds.
func (s *shop) supplier(w http.ResponseWriter, r *http.Request) {
	ms, err := strconv.Atoi(r.FormValue("ms"))
	if err == nil {
		waitForSupplier(time.Duration(ms) * time.Millisecond)
	}
	answer(w, ms, err)
}

// waitForSupplier is a separate function so that stacks show it.
//
//go:noinline
func waitForSupplier(d time.Duration) { time.Sleep(d) }

func answer(w http.ResponseWriter, value any, err error) {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.Error(w, "no such item", http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		// If this fails, the client has gone.
		_ = json.NewEncoder(w).Encode(value)
	}
}
