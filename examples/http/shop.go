package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-stapsdt/stapsdt/span"
)

// shop sells the items of a database.
type shop struct {
	db       *sql.DB
	log      *slog.Logger
	client   *http.Client
	supplier string // its URL

	waits  *span.Operation[waitStart, waitEnd]
	orders *span.Operation[orderStart, orderEnd]
}

// The shop's own operations: a wait for one of the pool's connections, and an order.
type (
	waitStart struct{}
	waitEnd   struct{ InUse int64 }

	orderStart struct{ Item string }
	orderEnd   struct{ Order int64 }
)

// report stands for a slow operation: it counts up to a number.
const report = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) SELECT sum(i) FROM n`

func (s *shop) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", s.item)
	mux.HandleFunc("GET /items", s.items)
	mux.HandleFunc("POST /items", s.add)
	mux.HandleFunc("POST /orders", s.order)
	mux.HandleFunc("GET /report", s.report)
	mux.HandleFunc("GET /supplier", s.supply)
	return mux
}

// conn takes a connection from the pool, and reports how long that took.
func (s *shop) conn(ctx context.Context) (*sql.Conn, error) {
	_, wait := s.waits.Start(ctx, waitStart{})
	c, err := s.db.Conn(ctx)
	wait.EndFunc(func() waitEnd { return waitEnd{int64(s.db.Stats().InUse)} }, err)
	return c, err
}

// get reads one value.
func (s *shop) get(ctx context.Context, to any, query string, args ...any) error {
	c, err := s.conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.QueryRowContext(ctx, query, args...).Scan(to)
}

// item shows one item.
func (s *shop) item(w http.ResponseWriter, r *http.Request) {
	var name string
	err := s.get(r.Context(), &name, "SELECT name FROM item WHERE id = $1", r.PathValue("id"))
	s.answer(w, r, name, err)
}

// items shows all items. It queries them one by one, which is one query too many for each.
func (s *shop) items(w http.ResponseWriter, r *http.Request) {
	var last int
	err := s.get(r.Context(), &last, "SELECT max(id) FROM item")
	names := []string{}
	for id := 1; id <= last && err == nil; id++ {
		var name string
		err = s.get(r.Context(), &name, "SELECT name FROM item WHERE id = $1", id)
		names = append(names, name)
	}
	s.answer(w, r, names, err)
}

// add adds the item ?name=.
func (s *shop) add(w http.ResponseWriter, r *http.Request) {
	var id int64
	err := s.get(r.Context(), &id, "INSERT INTO item (name) VALUES ($1) RETURNING id", r.FormValue("name"))
	s.answer(w, r, id, err)
}

// order orders ?item= from the supplier, and stores the order if the supplier has
// answered.
func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	item := r.FormValue("item")
	ctx, operation := s.orders.Start(r.Context(), orderStart{item})
	id, err := s.place(ctx, item)
	operation.End(orderEnd{id}, err)
	s.answer(w, r, id, err)
}

func (s *shop) place(ctx context.Context, item string) (id int64, err error) {
	var name string
	if err := s.get(ctx, &name, "SELECT name FROM item WHERE id = $1", item); err != nil {
		return 0, err
	}
	s.log.DebugContext(ctx, "ask the supplier", "item", name, "url", s.supplier)
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, s.supplier, nil)
	if err != nil {
		return 0, err
	}
	said, err := s.client.Do(ask)
	if err != nil {
		return 0, err
	}
	defer said.Body.Close()
	if _, err := io.Copy(io.Discard, said.Body); err != nil {
		return 0, err
	}
	if said.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the supplier says %s", said.Status)
	}
	c, err := s.conn(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, "INSERT INTO ordered (name) VALUES ($1) RETURNING id", name).Scan(&id); err != nil {
		return 0, errors.Join(err, tx.Rollback())
	}
	return id, tx.Commit()
}

// report works: ?n= determines how much.
func (s *shop) report(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.FormValue("n"))
	var sum int64
	if err == nil {
		err = s.get(r.Context(), &sum, report, n)
	}
	s.answer(w, r, sum, err)
}

// supply is the supplier: it answers after ?ms= milliseconds.
func (s *shop) supply(w http.ResponseWriter, r *http.Request) {
	ms, err := strconv.Atoi(r.FormValue("ms"))
	if err == nil {
		time.Sleep(time.Duration(ms) * time.Millisecond)
	}
	s.answer(w, r, ms, err)
}

func (s *shop) answer(w http.ResponseWriter, r *http.Request, value any, err error) {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		s.log.DebugContext(r.Context(), "no such item", "path", r.URL.Path)
		http.Error(w, "no such item", http.StatusNotFound)
	case err != nil:
		s.log.DebugContext(r.Context(), "request failed", "path", r.URL.Path, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		// If this fails, the client has gone.
		_ = json.NewEncoder(w).Encode(value)
	}
}
