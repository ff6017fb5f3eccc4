package sqlprobe

import (
	"context"
	"database/sql/driver"
	"errors"
	"runtime"
	"strings"

	"github.com/go-stapsdt/stapsdt/span"
)

// conn reports the use of a connection. It has the optional methods whose absence it can imitate.
// The others are in types of their own, for newConn: if a connection cannot execute queries
// unprepared, database/sql prepares a query before it even looks at the arguments, and it keeps a
// connection after a rollback if it can be reset and validated.
type conn struct {
	driver.Conn
	probes *Probes
	// skipped is a query that the driver did not execute unprepared (driver.ErrSkip).
	// database/sql prepares it next.
	skipped *query
}

// Unwrap returns the driver's connection.
func (c *conn) Unwrap() driver.Conn { return c.Conn }

// bySQL reports whether package database/sql has called the method that calls it. Any other
// caller has the connection from sql.Conn.Raw and gets the driver's own values, because it
// could notice wrappers. database/sql does not expose the values that it gets.
func bySQL() bool {
	var caller [1]uintptr
	runtime.Callers(3, caller[:])
	f, _ := runtime.CallersFrames(caller[:]).Next()
	return strings.HasPrefix(f.Function, "database/sql.")
}

// newConn returns a connection that has Exec, Query, ResetSession and IsValid if the driver's
// does.
func newConn(to driver.Conn, p *Probes) driver.Conn {
	c := &conn{Conn: to, probes: p}
	_, e := to.(driver.ExecerContext)
	_, e0 := to.(driver.Execer) //lint:ignore SA1019 deprecated, but there
	_, q := to.(driver.QueryerContext)
	_, q0 := to.(driver.Queryer) //lint:ignore SA1019 deprecated, but there
	_, r := to.(driver.SessionResetter)
	_, v := to.(driver.Validator)
	return c.with(e || e0, q || q0, r, v)
}

//go:generate go run conn_template.go

// The optional methods of a connection, each in a type of its own, for with.
type (
	execer    struct{ c *conn }
	queryer   struct{ c *conn }
	resetter  struct{ c *conn }
	validator struct{ c *conn }
)

func (r resetter) ResetSession(ctx context.Context) error {
	return r.c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

func (v validator) IsValid() bool { return v.c.Conn.(driver.Validator).IsValid() }

func (e execer) ExecContext(
	ctx context.Context, text string, args []driver.NamedValue,
) (driver.Result, error) {
	var q *query
	if e.c.probes.queries.Enabled() {
		if !bySQL() {
			return e.exec(ctx, text, args)
		}
		ctx, q = e.c.probes.begin(ctx, text)
	}
	r, err := e.exec(ctx, text, args)
	if e.c.skip(q, err) {
		return r, err
	}
	return q.result(r, err)
}

func (e execer) exec(
	ctx context.Context, text string, args []driver.NamedValue,
) (driver.Result, error) {
	if to, ok := e.c.Conn.(driver.ExecerContext); ok {
		return to.ExecContext(ctx, text, args)
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return nil, err
	}
	return e.c.Conn.(driver.Execer).Exec(
		text, values,
	) //lint:ignore SA1019 deprecated, but all that it has
}

func (e queryer) QueryContext(
	ctx context.Context, text string, args []driver.NamedValue,
) (driver.Rows, error) {
	var q *query
	if e.c.probes.queries.Enabled() {
		if !bySQL() {
			return e.query(ctx, text, args)
		}
		ctx, q = e.c.probes.begin(ctx, text)
	}
	r, err := e.query(ctx, text, args)
	if e.c.skip(q, err) {
		return r, err
	}
	return q.rows(r, err)
}

func (e queryer) query(
	ctx context.Context, text string, args []driver.NamedValue,
) (driver.Rows, error) {
	if to, ok := e.c.Conn.(driver.QueryerContext); ok {
		return to.QueryContext(ctx, text, args)
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return nil, err
	}
	return e.c.Conn.(driver.Queryer).Query(
		text, values,
	) //lint:ignore SA1019 deprecated, but all that it has
}

// skip keeps a query for the statement that will be prepared from it.
func (c *conn) skip(q *query, err error) bool {
	c.forget()
	if err != driver.ErrSkip {
		return false
	}
	c.skipped = q
	return true
}

// forget ends a query that was skipped and then not prepared.
func (c *conn) forget() {
	c.skipped.end(-1, errNotExecuted)
	c.skipped = nil
}

func (c *conn) Close() error {
	c.forget()
	return c.Conn.Close()
}

func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	if !bySQL() {
		return c.prepare(ctx, text)
	}
	begun := c.skipped
	if begun != nil && begun.text != text {
		c.forget()
		begun = nil
	}
	c.skipped = nil
	s, err := c.prepare(ctx, text)
	if err != nil || s == nil {
		begun.end(-1, err)
		return s, err
	}
	return newStmt(s, c, text, begun), nil
}

func (c *conn) prepare(ctx context.Context, text string) (driver.Stmt, error) {
	if to, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return to.PrepareContext(ctx, text)
	}
	s, err := c.Conn.Prepare(text)
	if err == nil {
		select {
		case <-ctx.Done():
			_ = s.Close()
			return nil, ctx.Err()
		default:
		}
	}
	return s, err
}

// BeginTx begins a transaction and, once it has begun, reports it.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if !c.probes.transactions.Enabled() || !bySQL() {
		return c.begin(ctx, opts)
	}
	ctx, s := c.probes.transactions.Start(ctx, none{})
	t, err := c.begin(ctx, opts)
	if s == nil {
		return t, err
	}
	if err != nil || t == nil {
		s.End(transactionEnd{}, err)
		return t, err
	}
	return &tx{t, s}, nil
}

func (c *conn) begin(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if to, ok := c.Conn.(driver.ConnBeginTx); ok {
		return to.BeginTx(ctx, opts)
	}
	if opts.Isolation != 0 {
		return nil, errors.New("sql: driver does not support non-default isolation level")
	}
	if opts.ReadOnly {
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	t, err := c.Conn.Begin() //lint:ignore SA1019 deprecated, but all that it has
	if err == nil {
		select {
		case <-ctx.Done():
			_ = t.Rollback()
			return nil, ctx.Err()
		default:
		}
	}
	return t, err
}

// tx is a transaction that is reported.
type tx struct {
	driver.Tx
	span *span.Span[transactionEnd]
}

func (t *tx) Commit() error {
	err := t.Tx.Commit()
	t.end(err == nil, err)
	return err
}

func (t *tx) Rollback() error {
	err := t.Tx.Rollback()
	t.end(false, err)
	return err
}

// end reports once that the transaction has ended. The program may keep it longer than that.
func (t *tx) end(committed bool, err error) {
	t.span.End(transactionEnd{committed}, err)
	t.span = nil
}

func (c *conn) Ping(ctx context.Context) error {
	if to, ok := c.Conn.(driver.Pinger); ok {
		return to.Ping(ctx)
	}
	return nil
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if to, ok := c.Conn.(driver.NamedValueChecker); ok {
		return to.CheckNamedValue(v)
	}
	return driver.ErrSkip
}
