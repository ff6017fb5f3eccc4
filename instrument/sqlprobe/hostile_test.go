package sqlprobe

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

// hostileConn is a connection whose texts say what fails: "OPERATION WHAT", such as "next panic".
// Every call of its values is logged, also of those that it returns.
type hostileConn struct{ *calls }

// do logs a call and does what the text says of it.
func (c *calls) do(text, operation string) (what string, err error) {
	c.add("%s %s", operation, text)
	at, what, _ := strings.Cut(text, " ")
	if at != operation {
		return "", nil
	}
	switch what {
	case "panic":
		panic(hostility(text))
	case "fail":
		return what, errBroken
	case "bad":
		return what, driver.ErrBadConn
	case "skip":
		return what, driver.ErrSkip
	case "terror":
		return what, terror{[]string{text}}
	case "eof":
		return what, io.EOF
	}
	return what, nil
}

// hostility is what the driver panics with.
type hostility string

// terror is an error that cannot be compared, and whose text cannot be had.
type terror struct{ text []string }

func (e terror) Error() string { panic(hostility("Error")) }

func (c hostileConn) Prepare(text string) (driver.Stmt, error) {
	what, err := c.do(text, "prepare")
	if what == "nil" {
		return (*hostileStmt)(nil), nil
	}
	return &hostileStmt{c, text}, err
}

func (c hostileConn) Close() error { _, err := c.do("", "close"); return err }

func (c hostileConn) Begin() (driver.Tx, error) {
	c.add("begin")
	return hostileTx{c}, nil
}

func (c hostileConn) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	text := map[driver.IsolationLevel]string{1: "begin panic", 2: "begin fail", 3: "begin terror", 4: "begin nil"}[opts.Isolation]
	what, err := c.do(text, "begin")
	if what == "nil" {
		return (*hostileTx)(nil), nil
	}
	return hostileTx{c}, err
}

func (c hostileConn) ExecContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	what, err := c.do(text, "exec")
	switch what {
	case "nil":
		return (*hostileResult)(nil), err
	case "none":
		return nil, nil
	}
	return &hostileResult{c, text}, err
}

func (c hostileConn) QueryContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	what, err := c.do(text, "query")
	if what == "nil" {
		return (*hostileRows)(nil), err
	}
	return &hostileRows{c, text, 0}, err
}

type hostileStmt struct {
	hostileConn
	text string
}

func (s *hostileStmt) Close() error {
	if s == nil {
		return errBroken
	}
	s.add("close %s", s.text)
	return nil
}

func (s *hostileStmt) NumInput() int { return -1 }

func (s *hostileStmt) Exec([]driver.Value) (driver.Result, error) {
	_, err := s.do(s.text, "execute")
	return &hostileResult{s.hostileConn, s.text}, err
}

func (s *hostileStmt) Query([]driver.Value) (driver.Rows, error) {
	_, err := s.do(s.text, "ask")
	return &hostileRows{s.hostileConn, s.text, 0}, err
}

// hostileResult is a result that the program asks only if the text says so.
type hostileResult struct {
	hostileConn
	text string
}

func (r *hostileResult) RowsAffected() (int64, error) {
	if _, err := r.do(r.text, "affected"); err != nil {
		return 0, err
	}
	return 7, nil
}

func (r *hostileResult) LastInsertId() (int64, error) { return 8, nil }

// hostileRows is one row.
type hostileRows struct {
	hostileConn
	text string
	read int
}

func (r *hostileRows) Columns() []string {
	if r == nil {
		return nil
	}
	r.add("columns")
	return []string{"a"}
}

func (r *hostileRows) Close() error {
	if r == nil {
		return errBroken
	}
	_, err := r.do(r.text, "closing")
	return err
}

func (r *hostileRows) Next(to []driver.Value) error {
	if r == nil {
		return io.EOF
	}
	if _, err := r.do(r.text, "next"); err != nil {
		return err
	}
	if r.read++; r.read == 2 {
		return io.EOF
	}
	to[0] = "row"
	return nil
}

type hostileTx struct{ hostileConn }

func (t *hostileTx) ended(how string) error {
	if t == nil {
		return errBroken
	}
	_, err := t.do("rollback terror", how)
	return err
}

func (t hostileTx) Commit() error   { return t.ended("commit") }
func (t hostileTx) Rollback() error { return t.ended("rollback") }

// hostileTexts are what can go wrong.
func hostileTexts() (list []string) {
	for _, operation := range []string{"exec", "query", "prepare", "execute", "ask", "next", "closing", "affected"} {
		for _, what := range []string{"panic", "fail", "bad", "skip", "terror", "eof", "nil", "none"} {
			list = append(list, operation+" "+what)
		}
	}
	return list
}

// countingContext counts the calls of its methods that this package makes: how often package context
// does is a matter of time. That package does not know its type.
type countingContext struct {
	context.Context
	calls map[string]int
}

func (c *countingContext) count(method string) {
	var pcs [8]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	f, _ := frames.Next()
	for strings.Contains(f.Function, "/span.(*scope") { // the context of a span passes calls on
		f, _ = frames.Next()
	}
	if strings.Contains(f.Function, "/sqlprobe.") && !strings.HasSuffix(f.File, "_test.go") {
		c.calls[method]++
	}
}

func (c *countingContext) Done() <-chan struct{} { c.count("Done"); return c.Context.Done() }
func (c *countingContext) Err() error            { c.count("Err"); return c.Context.Err() }
func (c *countingContext) Deadline() (time.Time, bool) {
	c.count("Deadline")
	return c.Context.Deadline()
}

// Value is not counted: package span is tested for that.

// witness does what programs do with a hostile driver, and notes what they see of it.
type witness struct {
	t       *testing.T
	db      *sql.DB
	ctx     context.Context
	noticed []any
}

// attempt notes what a function returns or panics with. Errors are noted as they are.
func (w *witness) attempt(do func() (any, error)) {
	defer func() {
		if r := recover(); r != nil {
			w.noticed = append(w.noticed, r)
		}
	}()
	v, err := do()
	w.noticed = append(w.noticed, v, err)
}

func (w *witness) exec(r sql.Result, err error, text string) (any, error) {
	if err != nil || !strings.HasPrefix(text, "affected") {
		return nil, err
	}
	return r.RowsAffected()
}

func (w *witness) read(r *sql.Rows, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	defer r.Close()
	n := 0
	for r.Next() {
		n++
	}
	return n, errors.Join(r.Err(), r.Close())
}

func (w *witness) use() {
	for _, text := range hostileTexts() {
		w.attempt(func() (any, error) { r, err := w.db.ExecContext(w.ctx, text); return w.exec(r, err, text) })
		w.attempt(func() (any, error) { return w.read(w.db.QueryContext(w.ctx, text)) })
		w.attempt(func() (any, error) {
			s, err := w.db.PrepareContext(w.ctx, text)
			if err != nil {
				return nil, err
			}
			defer s.Close()
			w.attempt(func() (any, error) { r, err := s.ExecContext(w.ctx); return w.exec(r, err, text) })
			return w.read(s.QueryContext(w.ctx))
		})
	}
	for level := range 5 {
		for _, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
			w.attempt(func() (any, error) {
				tx, err := w.db.BeginTx(w.ctx, &sql.TxOptions{Isolation: sql.IsolationLevel(level)})
				if err != nil {
					return nil, err
				}
				return nil, end(tx)
			})
		}
	}
}

// TestHostileDriver: a driver that fails in every way is called as without the probes, and
// programs notice the same: errors, of which some cannot be printed, and panics.
func TestHostileDriver(t *testing.T) {
	p := eventtest.Provider(t, "sqlprobe")
	probes := New(p)
	asked := []map[string]int{}
	rec := eventtest.Same(t, p, func(probed bool) (noticed []any) {
		goroutines := runtime.NumGoroutine()
		c := testConnector{&calls{}, func(c *bareConn) driver.Conn { return hostileConn{c.calls} }}
		connector := driver.Connector(c)
		if probed {
			connector = probes.Connector(c)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		counting := &countingContext{Context: ctx, calls: map[string]int{}}
		w := &witness{t: t, db: sql.OpenDB(connector), ctx: counting}
		w.db.SetMaxIdleConns(1)
		w.use()
		require.NoError(t, w.db.Close())
		cancel() // database/sql waits for that if the driver's rows panic when they are closed
		eventtest.Settle(t, goroutines)
		require.Contains(t, w.noticed, hostility("next panic"))
		require.Contains(t, c.calls.list, "affected affected fail")
		asked = append(asked, counting.calls)
		return append(w.noticed, c.calls.list)
	})
	require.NotEmpty(t, asked[1])
	require.Equal(t, asked[1], asked[2], "methods of the context were called")
	require.Greater(t, len(rec.Events(probetest.OnlyNamed("query__end"))), len(hostileTexts()))
	errs := map[any]bool{}
	for _, e := range rec.Events(probetest.OnlyNamed("query__end")) {
		errs[eventtest.Args(e)["error"]] = true
	}
	require.Subset(t, slices.Collect(maps.Keys(errs)), []any{"", "broken", "driver: bad connection", "sqlprobe.terror"})
}
