//go:build linux

package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
)

// Each query and each transaction has a connection of its own, which is closed afterwards.
func open(probes *sqlprobe.Probes) *sql.DB {
	db := sql.OpenDB(probes.Connector(database{}))
	db.SetMaxIdleConns(-1)
	return db
}

// shared has the probes of sqlprobe, which queries and transactions of a provider share.
var shared = map[*stapsdt.Provider]*sqlprobe.Probes{}

func sqlProbes(p *stapsdt.Provider) *sqlprobe.Probes {
	if shared[p] == nil {
		shared[p] = sqlprobe.New(p)
	}
	return shared[p]
}

// queries are in flight until their rows are closed.
type queries struct{ db *sql.DB }

func newQueries(p *stapsdt.Provider) operations { return queries{open(sqlProbes(p))} }

func (q queries) begin(n int) (operation, error) {
	rows, err := q.db.QueryContext(context.Background(), "SELECT ?", n)
	if err != nil {
		return nil, err
	}
	return &query{rows, n}, nil
}

type query struct {
	rows *sql.Rows
	n    int
}

func (q *query) end() error {
	var sum, n int
	types, err := q.rows.ColumnTypes()
	if err != nil {
		return err
	}
	if err := differs("VALUE", types[0].DatabaseTypeName()); err != nil {
		return err
	}
	for q.rows.Next() {
		if err := q.rows.Scan(&n); err != nil {
			return err
		}
		sum += n
	}
	return errors.Join(q.rows.Err(), q.rows.Close(), differs(rowsOfQuery*q.n, sum))
}

// transactions are in flight until they are committed or rolled back.
type transactions struct{ db *sql.DB }

func newTransactions(p *stapsdt.Provider) operations { return transactions{open(sqlProbes(p))} }

func (t transactions) begin(n int) (operation, error) {
	tx, err := t.db.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	return &transaction{tx, n}, nil
}

type transaction struct {
	tx *sql.Tx
	n  int
}

func (t *transaction) end() error {
	result, err := t.tx.ExecContext(context.Background(), "INSERT ?", t.n)
	if err != nil {
		return err
	}
	changed, err := result.RowsAffected()
	last, unknown := result.LastInsertId()
	err = errors.Join(err, differs(int64(1), changed), differs(int64(t.n), last), unknown)
	if _, failed := t.tx.ExecContext(context.Background(), "FAIL"); failed == nil || failed.Error() != errStatement.Error() {
		return errors.Join(err, errors.New("FAIL did not fail"), failed)
	}
	if t.n%2 == 1 {
		return errors.Join(err, t.tx.Rollback())
	}
	return errors.Join(err, t.tx.Commit())
}

// raws are what a program asks its driver for, through sql.Conn.Raw: they are in flight until the connection is closed.
type raws struct{ db *sql.DB }

func newRaws(p *stapsdt.Provider) operations { return raws{open(sqlProbes(p))} }

func (r raws) begin(n int) (operation, error) {
	conn, err := r.db.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	o := &raw{conn: conn}
	return o, conn.Raw(func(c any) error { return o.ask(c, n) })
}

// raw has what the driver's connection gave.
type raw struct {
	conn *sql.Conn
	rows driver.Rows
	stmt driver.Stmt
	tx   driver.Tx
}

func (o *raw) ask(c any, n int) (err error) {
	ctx := context.Background()
	if o.rows, err = c.(driver.QueryerContext).QueryContext(ctx, "SELECT ?", []driver.NamedValue{{Value: n}}); err != nil {
		return err
	}
	if o.stmt, err = c.(driver.ConnPrepareContext).PrepareContext(ctx, "SELECT ?"); err != nil {
		return err
	}
	if o.tx, err = c.(driver.ConnBeginTx).BeginTx(ctx, driver.TxOptions{}); err != nil {
		return err
	}
	return look("raw connection", c)
}

func (o *raw) end() error {
	_, ownRows := o.rows.(*rows)
	_, ownStmt := o.stmt.(statement)
	_, ownTx := o.tx.(*connection)
	return errors.Join(differs(true, ownRows), differs(true, ownStmt), differs(true, ownTx),
		o.rows.Close(), o.stmt.Close(), o.tx.Rollback(), o.conn.Close())
}
