// Package sqlprobe wraps a database/sql driver and reports its queries to tracers.
//
//	app := stapsdt.NewProvider("shop")
//	queries := sqlprobe.New(app, httpprobe.RequestID)
//	err := app.Load()
//	...
//	db := sql.OpenDB(queries.Connector(&sqlite.Driver{}, "shop.db"))
//
// Two probes are defined:
//
//	query__start(request, id, text)
//	query__done(request, id, text, rows, error, nanoseconds)
//
// The request is what the query is for, 0 when that is not known, and the id is the
// query's own. Both stay the same while the goroutine moves from thread to thread.
// The rows are those that were read, or that a statement changed, and -1 when it
// failed: then there is an error, otherwise that is empty. A query that is read from
// is done when its rows are closed; its time is until then.
//
// A query is reported from start to done or not at all.
package sqlprobe

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

// Probes are the probes of a provider's queries.
type Probes struct {
	start   *stapsdt.Probe3[uint64, uint64, string]
	done    *stapsdt.Probe6[uint64, uint64, string, int64, string, int64]
	request func(context.Context) uint64
	ids     atomic.Uint64
}

// New defines the probes. A definition that fails is reported by the provider's Load.
// request returns the number of what a query is done for; nil when there is none.
func New(p *stapsdt.Provider, request func(context.Context) uint64) *Probes {
	if request == nil {
		request = func(context.Context) uint64 { return 0 }
	}
	return &Probes{
		start:   stapsdt.NewProbe3[uint64, uint64, string](p, "query__start"),
		done:    stapsdt.NewProbe6[uint64, uint64, string, int64, string, int64](p, "query__done"),
		request: request,
	}
}

// Connector returns a connector for sql.OpenDB, which opens name with d and reports
// the queries.
func (p *Probes) Connector(d driver.Driver, name string) driver.Connector {
	return &connector{driver: d, name: name, probes: p}
}

// query is one that is reported. A nil one is not, and may be used all the same.
type query struct {
	probes      *Probes
	request, id uint64
	text        string
	began       time.Time
}

// begin reports the start of a query. While nobody traces it returns nil, and does
// nothing else.
func (p *Probes) begin(ctx context.Context, text string) *query {
	if !p.start.Enabled() && !p.done.Enabled() {
		return nil
	}
	q := &query{probes: p, request: p.request(ctx), id: p.ids.Add(1), text: text, began: time.Now()}
	p.start.Fire(q.request, q.id, text)
	return q
}

// end reports that a query is done, or failed when err is not nil.
func (q *query) end(rows int64, err error) {
	if q == nil {
		return
	}
	q.probes.done.FireFunc(func() (uint64, uint64, string, int64, string, int64) {
		text := ""
		if err != nil {
			rows, text = -1, err.Error()
		}
		return q.request, q.id, q.text, rows, text, int64(time.Since(q.began))
	})
}

// result reports the end of a statement that has no rows.
func (q *query) result(r driver.Result, err error) (driver.Result, error) {
	if q == nil {
		return r, err
	}
	var changed int64
	if err == nil {
		// Some drivers cannot tell.
		changed, _ = r.RowsAffected()
	}
	q.end(changed, err)
	return r, err
}

// rows reports the end of a query that failed, or has it reported when its rows are
// closed.
func (q *query) rows(r driver.Rows, err error) (driver.Rows, error) {
	if q == nil {
		return r, err
	}
	if err != nil {
		q.end(0, err)
		return nil, err
	}
	return &rows{Rows: r, query: q}, nil
}
