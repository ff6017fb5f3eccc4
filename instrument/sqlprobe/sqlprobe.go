// Package sqlprobe reports the use of databases through database/sql to tracers. It can wrap any
// driver.
//
//	app := stapsdt.NewProvider("shop")
//	probes := sqlprobe.New(app)
//	err := app.Load()
//	...
//	db, err := probes.Open("sqlite", "shop.db") // in place of sql.Open
//
// It defines these probes, which report spans: see package span for their IDs, parents,
// durations and errors, and for their cost while nothing traces them.
//
//	query__start(id, parent, text)
//	query__end(id, parent, nanoseconds, error, text, rows)
//	connect__start(id, parent)
//	connect__end(id, parent, nanoseconds, error)
//	transaction__start(id, parent)
//	transaction__end(id, parent, nanoseconds, error, committed)
//
// The text of a query is as the program wrote it, with placeholders for its arguments, which
// are not reported. rows is the number of rows that were read. For a statement that returns no
// rows it is the number of rows that the statement changed, if the driver's result is a
// [driver.RowsAffected], as in lib/pq and pgx: the methods of other results are not called.
// Otherwise, and if the query failed, it is -1. error is the first error that a method of the
// driver returned.
//
// A query that returns rows ends when they are closed: its nanoseconds include the time in which
// the program reads them. A query whose rows are never closed has no end, and neither has a
// transaction that is neither committed nor rolled back.
//
// # What differs while traced
//
// The driver gets contexts that are derived from the program's contexts and have another type. All
// other values and types that the program gets, from package database/sql and through
// sql.Conn.Raw, are the same whether it is traced or not. The package calls only those methods of
// the driver's values that database/sql would call at that point, and Error of the errors that
// they return. It calls no method of the program's contexts that database/sql would not call.
//
// A query keeps at most 192 additional bytes until its rows are closed, a transaction 96
// until it ends, and a connect 80. None of them keeps a goroutine or a lock, and no list
// refers to them.
package sqlprobe

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/span"
)

// Probes holds the probes. [New] makes it: the zero Probes must not be used. Its methods are safe
// for concurrent use.
type Probes struct {
	queries      *span.Operation[queryStart, queryEnd]
	connects     *span.Operation[none, none]
	transactions *span.Operation[none, transactionEnd]
}

type (
	none       struct{}
	queryStart struct{ Text string }
	queryEnd   struct {
		Text string
		Rows int64
	}
	transactionEnd struct{ Committed bool }
)

// New defines the probes. If the provider has probes of these names with other arguments, its Load
// reports it. With a nil provider nothing is reported.
func New(p *stapsdt.Provider, opts ...span.Option) *Probes {
	return &Probes{
		queries:      span.NewOperation[queryStart, queryEnd](p, "query", opts...),
		connects:     span.NewOperation[none, none](p, "connect", opts...),
		transactions: span.NewOperation[none, transactionEnd](p, "transaction", opts...),
	}
}

// Open is like sql.Open, and reports the use of the database. It fails if sql.Open does.
func (p *Probes) Open(driverName, dataSourceName string) (*sql.DB, error) {
	db, err := sql.Open(driverName, dataSourceName)
	if err != nil {
		return nil, err
	}
	d := db.Driver()
	if err := db.Close(); err != nil { // it has not connected yet
		return nil, err
	}
	c, err := connectorOf(d, dataSourceName)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(p.Connector(c)), nil
}

// connectorOf returns the connector that sql.Open makes.
func connectorOf(d driver.Driver, name string) (driver.Connector, error) {
	if to, ok := d.(driver.DriverContext); ok {
		return to.OpenConnector(name)
	}
	return nameConnector{d, name}, nil
}

// nameConnector is the connector of a driver that makes none.
type nameConnector struct {
	driver driver.Driver
	name   string
}

func (c nameConnector) Connect(context.Context) (driver.Conn, error) {
	return c.driver.Open(c.name)
}
func (c nameConnector) Driver() driver.Driver { return c.driver }

// Connector returns a connector for sql.OpenDB. It connects with c and reports the use of the
// connections. Its Driver is the Driver of c. It has a method Close if c does.
//
// With database/sql the connections behave like those of c, whichever of the optional interfaces of
// package driver these implement. sql.Conn.Raw passes a wrapped connection, which has a method
// Unwrap that returns the driver's own. If the program itself calls a method of the wrapped
// connection, it gets the driver's own statement, transaction or rows, and the call is not
// reported. Therefore, pass the connector to sql.OpenDB itself, and not to another package that
// wraps connectors.
func (p *Probes) Connector(c driver.Connector) driver.Connector {
	mine := &connector{c, p}
	if to, ok := c.(closer); ok {
		return struct {
			*connector
			closer
		}{mine, to}
	}
	return mine
}

// closer is an optional interface of a connector.
type closer interface{ Close() error }

type connector struct {
	driver.Connector
	probes *Probes
}

// Connect opens a connection and reports the attempt.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, s := c.probes.connects.Start(ctx, none{})
	opened, err := c.Connector.Connect(ctx)
	s.End(none{}, err)
	if err != nil || opened == nil {
		return opened, err
	}
	return newConn(opened, c.probes), nil
}

// query is a query that is reported. A nil query is not reported, and its methods do
// nothing.
type query struct {
	span *span.Span[queryEnd]
	text string
	// ctx is the span's context, for the execution of the statement that is prepared if the
	// driver skips the query.
	ctx context.Context
}

// begin reports the start of a query. While nothing traces it, it returns ctx and nil.
func (p *Probes) begin(ctx context.Context, text string) (context.Context, *query) {
	ctx, s := p.queries.Start(ctx, queryStart{text})
	if s == nil {
		return ctx, nil
	}
	return ctx, &query{s, text, ctx}
}

// end reports that a query has ended, or that it failed if err is not nil.
func (q *query) end(rows int64, err error) {
	if q == nil {
		return
	}
	if err != nil {
		rows = -1
	}
	q.span.End(queryEnd{q.text, rows}, err)
}

// result reports the end of a statement that has no rows.
func (q *query) result(r driver.Result, err error) (driver.Result, error) {
	if q == nil {
		return r, err
	}
	changed := int64(-1)
	if n, ok := r.(driver.RowsAffected); ok { // the methods of any other type are the driver's
		changed = int64(n)
	}
	q.end(changed, err)
	return r, err
}

// rows reports the end of a query that failed. For any other query it returns rows that
// report the end when they are closed.
func (q *query) rows(r driver.Rows, err error) (driver.Rows, error) {
	if q == nil {
		return r, err
	}
	if err != nil || r == nil {
		q.end(-1, err)
		return r, err
	}
	return newRows(r, q), nil
}
