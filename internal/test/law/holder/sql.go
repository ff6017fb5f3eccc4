//go:build linux

package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
)

// Each query and each transaction has a connection of its own, which is closed afterwards.
func open(probes *sqlprobe.Probes) *sql.DB {
	db := sql.OpenDB(probes.Connector(database{}))
	db.SetMaxIdleConns(-1)
	return db
}

var sqlProbes = once(sqlprobe.New)

// newQueries returns queries, which are in flight until their rows are closed.
func newQueries(p *stapsdt.Provider) begin {
	db := open(sqlProbes(p))
	return func(n int) (end, error) {
		rows, err := db.QueryContext(context.Background(), "SELECT ?", n)
		if err != nil {
			return nil, err
		}
		return func() error {
			var sum, value int
			types, err := rows.ColumnTypes()
			if err != nil {
				return err
			}
			if err := differs("VALUE", types[0].DatabaseTypeName()); err != nil {
				return err
			}
			for rows.Next() {
				if err := rows.Scan(&value); err != nil {
					return err
				}
				sum += value
			}
			return errors.Join(rows.Err(), rows.Close(), differs(rowsOfQuery*n, sum))
		}, nil
	}
}

// newTransactions returns transactions, which are in flight until they are committed or rolled back.
func newTransactions(p *stapsdt.Provider) begin {
	db := open(sqlProbes(p))
	return func(n int) (end, error) {
		tx, err := db.BeginTx(context.Background(), nil)
		return func() error { return transact(tx, n) }, err
	}
}

func transact(tx *sql.Tx, n int) error {
	result, err := tx.ExecContext(context.Background(), "INSERT ?", n)
	if err != nil {
		return err
	}
	changed, err := result.RowsAffected()
	last, unknown := result.LastInsertId()
	err = errors.Join(err, differs(int64(1), changed), differs(int64(n), last), unknown)
	if _, failed := tx.ExecContext(context.Background(), "FAIL"); failed == nil || failed.Error() != errStatement.Error() {
		return errors.Join(err, errors.New("FAIL did not fail"), failed)
	}
	if n%2 == 1 {
		return errors.Join(err, tx.Rollback())
	}
	return errors.Join(err, tx.Commit())
}

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

func (c *connection) Prepare(string) (driver.Stmt, error) { return nil, errStatement }

func (c *connection) Begin() (driver.Tx, error) { return c, nil }
func (c *connection) Commit() error             { return c.ended() }
func (c *connection) Rollback() error           { return c.ended() }

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

type inserted int64

func (i inserted) LastInsertId() (int64, error) { return int64(i), nil }
func (i inserted) RowsAffected() (int64, error) { return 1, nil }
