package sqlprobe

import (
	"context"
	"database/sql/driver"
	"fmt"
)

type connector struct {
	driver driver.Driver
	name   string
	probes *Probes
}

func (c *connector) Driver() driver.Driver { return c.driver }

// Connect opens a connection. It refuses those of a driver that is from before
// contexts.
func (c *connector) Connect(context.Context) (driver.Conn, error) {
	opened, err := c.driver.Open(c.name)
	if err != nil {
		return nil, err
	}
	to, ok := opened.(contextConn)
	if !ok {
		opened.Close()
		return nil, fmt.Errorf("sqlprobe: %T takes no contexts", opened)
	}
	return &conn{contextConn: to, probes: c.probes}, nil
}

type contextConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

// conn reports what is executed without being prepared. What a driver may leave out
// is passed on where it is there, and what database/sql would do where it is not.
type conn struct {
	contextConn
	probes *Probes
	// skipped is a query that the driver would rather have prepared, which is
	// what database/sql does next.
	skipped *query
}

// skip keeps a query for the statement that will be prepared of it.
func (c *conn) skip(q *query, err error) bool {
	if err != driver.ErrSkip {
		return false
	}
	c.skipped = q
	return true
}

func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	q := c.probes.begin(ctx, text)
	r, err := c.contextConn.ExecContext(ctx, text, args)
	if c.skip(q, err) {
		return nil, err
	}
	return q.result(r, err)
}

func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	q := c.probes.begin(ctx, text)
	r, err := c.contextConn.QueryContext(ctx, text, args)
	if c.skip(q, err) {
		return nil, err
	}
	return q.rows(r, err)
}

func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	skipped := c.skipped
	c.skipped = nil
	prepared, err := c.contextConn.PrepareContext(ctx, text)
	if err != nil {
		skipped.end(0, err)
		return nil, err
	}
	to, ok := prepared.(contextStmt)
	if !ok {
		prepared.Close()
		err := fmt.Errorf("sqlprobe: %T takes no contexts", prepared)
		skipped.end(0, err)
		return nil, err
	}
	return &stmt{contextStmt: to, probes: c.probes, text: text, begun: skipped}, nil
}

func (c *conn) Ping(ctx context.Context) error {
	if to, ok := c.contextConn.(driver.Pinger); ok {
		return to.Ping(ctx)
	}
	return nil
}

func (c *conn) ResetSession(ctx context.Context) error {
	if to, ok := c.contextConn.(driver.SessionResetter); ok {
		return to.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	to, ok := c.contextConn.(driver.Validator)
	return !ok || to.IsValid()
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	return checkNamedValue(c.contextConn, v)
}

func checkNamedValue(to any, v *driver.NamedValue) error {
	if to, ok := to.(driver.NamedValueChecker); ok {
		return to.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type contextStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// stmt reports what is executed after it was prepared.
type stmt struct {
	contextStmt
	probes *Probes
	text   string
	begun  *query // its first execution, when it was begun without it
}

// begin reports the start of an execution, unless that was done.
func (s *stmt) begin(ctx context.Context) *query {
	if q := s.begun; q != nil {
		s.begun = nil
		return q
	}
	return s.probes.begin(ctx, s.text)
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	q := s.begin(ctx)
	return q.result(s.contextStmt.ExecContext(ctx, args))
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	q := s.begin(ctx)
	return q.rows(s.contextStmt.QueryContext(ctx, args))
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	return checkNamedValue(s.contextStmt, v)
}
