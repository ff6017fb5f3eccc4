package sqlprobe

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"

	"github.com/stretchr/testify/require"
)

// These are what a query with open rows, a transaction and a connect keep while they are observed.
const (
	queryBytes       = 192
	transactionBytes = 96
	connectBytes     = 80
)

// quiet is a connection without a log, and its connector.
type quiet struct{}

func (q quiet) Connect(ctx context.Context) (driver.Conn, error) {
	if s, ok := ctx.Value(slow{}).(slow); ok {
		close(s.began)
		<-s.proceed
	}
	return q, nil
}

func (q quiet) Driver() driver.Driver { return nil }

// slow makes a connector wait, and is its own key in a context.
type slow struct{ began, proceed chan struct{} }

func (quiet) Prepare(string) (driver.Stmt, error) { return nil, errBroken }
func (quiet) Close() error                        { return nil }
func (quiet) Begin() (driver.Tx, error)           { return quietTx{}, nil }

func (quiet) QueryContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	return &bareRows{&calls{}, text, 0}, nil
}

type quietTx struct{}

func (quietTx) Commit() error   { return nil }
func (quietTx) Rollback() error { return nil }

// quietDB has a connection for each operation.
func quietDB(t *testing.T, probes *Probes) *sql.DB {
	db := sql.OpenDB(probes.Connector(quiet{}))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxIdleConns(-1)
	return db
}

// TestInFlight: open rows, transactions and connects keep what the package says, and nothing when they have
// ended.
func TestInFlight(t *testing.T) {
	p := eventtest.Provider(t, "sqlprobe")
	probes := New(p)
	for _, tt := range []struct {
		name  string
		limit int
		begin func(ctx context.Context, db *sql.DB) (end func() error)
	}{
		{"rows", queryBytes, func(ctx context.Context, db *sql.DB) func() error {
			r, err := db.QueryContext(ctx, "good")
			require.NoError(t, err)
			return r.Close
		}},
		{"transaction", transactionBytes, func(ctx context.Context, db *sql.DB) func() error {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			return tx.Commit
		}},
		{"connect", connectBytes, func(ctx context.Context, db *sql.DB) func() error {
			s, ended := slow{make(chan struct{}), make(chan struct{})}, make(chan error)
			go func() {
				c, err := db.Conn(context.WithValue(ctx, slow{}, s))
				if err == nil {
					err = c.Close()
				}
				ended <- err
			}()
			<-s.began
			return func() error {
				close(s.proceed)
				return <-ended
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := quietDB(t, probes)
			ctx := context.Background()
			eventtest.InFlight(t, p, tt.limit, func() func() {
				end := tt.begin(ctx, db)
				return func() { require.NoError(t, end()) }
			})
		})
	}
}

// TestReleased: rows and transactions that have ended keep nothing of it, and may end again.
func TestReleased(t *testing.T) {
	p := eventtest.Provider(t, "sqlprobe")
	defer p.Observe(func(*stapsdt.Event) {})()
	c, err := New(p).Connector(testConnector{&calls{}, drivers["skipping"]}).Connect(t.Context())
	require.NoError(t, err)
	s, err := c.(driver.ConnPrepareContext).PrepareContext(t.Context(), "good")
	require.NoError(t, err)
	r, err := s.(driver.StmtQueryContext).QueryContext(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Nil(t, r.(*rows).query)
	x, err := c.(driver.ConnBeginTx).BeginTx(t.Context(), driver.TxOptions{})
	require.NoError(t, err)
	require.NoError(t, x.Commit())
	require.Nil(t, x.(*tx).span)
	require.NoError(t, r.Close())
	require.NoError(t, x.Rollback())
}

// TestAttachedInside: a tracer that comes and goes between any two steps of a query that the driver
// skips, reads and transactions, sees starts and ends that belong together.
func TestAttachedInside(t *testing.T) {
	p := eventtest.Provider(t, "sqlprobe")
	probes := New(p)
	step := func(c driver.Conn) []func() {
		ctx := context.Background()
		var s driver.Stmt
		var r driver.Rows
		var x driver.Tx
		return []func(){
			func() { x, _ = c.(driver.ConnBeginTx).BeginTx(ctx, driver.TxOptions{}) },
			func() { _, _ = c.(driver.QueryerContext).QueryContext(ctx, "good", nil) }, // is skipped
			func() { s, _ = c.(driver.ConnPrepareContext).PrepareContext(ctx, "good") },
			func() { r, _ = s.(driver.StmtQueryContext).QueryContext(ctx, nil) },
			func() { require.NoError(t, r.Next(make([]driver.Value, 1))) },
			func() { require.NoError(t, r.Close()) },
			func() { require.NoError(t, s.Close()) },
			func() { require.NoError(t, x.Commit()) },
			func() { _, _ = c.(driver.QueryerContext).QueryContext(ctx, "good", nil) }, // and never prepared
			func() { require.NoError(t, c.Close()) },
		}
	}
	var plain []string
	for from := range 10 {
		for to := from; to < 10; to++ {
			log := &calls{}
			c, err := probes.Connector(testConnector{log, drivers["skipping"]}).Connect(t.Context())
			require.NoError(t, err)
			starts, ends := map[string]int{}, map[string]int{}
			var stop func()
			for i, do := range step(c) {
				if i == from {
					stop = p.Observe(func(e *stapsdt.Event) {
						if name := e.Probe().Name(); name == "query__start" || name == "transaction__start" {
							starts[e.Arg(0).String()]++
						} else {
							ends[e.Arg(0).String()]++
						}
					})
				}
				do()
				if i == to {
					stop()
				}
			}
			for id, n := range ends {
				require.Equal(t, 1, n)
				require.Equal(t, 1, starts[id])
			}
			if plain == nil {
				plain = log.list
			}
			require.Equal(t, plain, log.list)
		}
	}
}
