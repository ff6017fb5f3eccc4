//go:build linux

package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// database is a driver whose database is in memory and answers at once. It counts nothing, so
// that what remains after an operation is not its own.
type database struct{}

func (database) Connect(context.Context) (driver.Conn, error) { return &connection{}, nil }
func (database) Driver() driver.Driver                        { return nil }

var (
	errStatement = errors.New("no such statement")
	errClosed    = errors.New("the connection is closed")
)

type connection struct{ closed bool }

func (c *connection) Prepare(text string) (driver.Stmt, error) {
	if text == "SELECT ?" {
		return statement{c}, nil
	}
	return nil, errStatement
}

func (c *connection) Begin() (driver.Tx, error) { return c, nil }
func (c *connection) Commit() error             { return c.ended() }
func (c *connection) Rollback() error           { return c.ended() }

func (c *connection) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return c, nil }

func (c *connection) Close() error {
	err := c.ended()
	c.closed = true
	return err
}

func (c *connection) ended() error {
	if c.closed {
		return errClosed
	}
	return nil
}

func (c *connection) QueryContext(_ context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if text != "SELECT ?" || len(args) != 1 {
		return nil, errStatement
	}
	return &rows{value: args[0].Value, left: rowsOfQuery}, nil
}

func (c *connection) ExecContext(_ context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if text != "INSERT ?" || len(args) != 1 {
		return nil, errStatement
	}
	return inserted(args[0].Value.(int64)), nil
}

// rowsOfQuery is how many rows a query has.
const rowsOfQuery = 3

type rows struct {
	value driver.Value
	left  int
}

func (r *rows) Columns() []string                     { return []string{"value"} }
func (r *rows) Close() error                          { return nil }
func (r *rows) HasNextResultSet() bool                { return false }
func (r *rows) NextResultSet() error                  { return io.EOF }
func (r *rows) ColumnTypeDatabaseTypeName(int) string { return "VALUE" }

func (r *rows) Next(to []driver.Value) error {
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	to[0] = r.value
	return nil
}

// statement is a prepared query.
type statement struct{ c *connection }

func (s statement) Close() error                               { return nil }
func (s statement) NumInput() int                              { return 1 }
func (s statement) Exec([]driver.Value) (driver.Result, error) { return nil, errStatement }

func (s statement) Query(args []driver.Value) (driver.Rows, error) {
	return s.c.QueryContext(context.Background(), "SELECT ?", []driver.NamedValue{{Value: args[0]}})
}

type inserted int64

func (i inserted) LastInsertId() (int64, error) { return int64(i), nil }
func (i inserted) RowsAffected() (int64, error) { return 1, nil }
