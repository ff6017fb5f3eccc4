package sqlprobe_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
)

func init() { sql.Register("memory", memory{}) }

// memory is a driver for the examples. Its database has two items, which every query returns.
type memory struct{}

func (memory) Open(string) (driver.Conn, error) { return conn{}, nil }

type conn struct{}

func (conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (conn) Close() error                        { return nil }
func (conn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }

func (conn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &items{"coffee", "tea"}, nil
}

type items []string

func (*items) Columns() []string { return []string{"name"} }
func (*items) Close() error      { return nil }

func (i *items) Next(row []driver.Value) error {
	if len(*i) == 0 {
		return io.EOF
	}
	row[0], *i = (*i)[0], (*i)[1:]
	return nil
}
