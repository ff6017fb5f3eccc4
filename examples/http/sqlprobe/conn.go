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
}

func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	q := c.probes.begin(ctx, text)
	return q.result(c.contextConn.ExecContext(ctx, text, args))
}

func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	q := c.probes.begin(ctx, text)
	return q.rows(c.contextConn.QueryContext(ctx, text, args))
}

func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	prepared, err := c.contextConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	to, ok := prepared.(contextStmt)
	if !ok {
		prepared.Close()
		return nil, fmt.Errorf("sqlprobe: %T takes no contexts", prepared)
	}
	return &stmt{contextStmt: to, probes: c.probes, text: text}, nil
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
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	q := s.probes.begin(ctx, s.text)
	return q.result(s.contextStmt.ExecContext(ctx, args))
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	q := s.probes.begin(ctx, s.text)
	return q.rows(s.contextStmt.QueryContext(ctx, args))
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	return checkNamedValue(s.contextStmt, v)
}
