package sqlprobe

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
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
	if wait, ok := ctx.Value(slow{}).(func()); ok {
		wait()
	}
	return q, nil
}

func (q quiet) Driver() driver.Driver { return nil }

// slow is the key, in a context, of a function that makes a connector wait.
type slow struct{}

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
			var err error
			end := eventtest.Held(func(wait func()) {
				var c *sql.Conn
				if c, err = db.Conn(context.WithValue(ctx, slow{}, wait)); err == nil {
					err = c.Close()
				}
			})
			return func() error { end(); return err }
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
	probes := New(p)
	ctx, q := probes.begin(t.Context(), "good")
	r := newRows(&bareRows{&calls{}, "good", 0}, q)
	require.NoError(t, r.Close())
	require.Nil(t, r.(*rows).query)
	require.NoError(t, r.Close())
	_, s := probes.transactions.Start(ctx, none{})
	x := &tx{bareTx{&calls{}}, s}
	require.NoError(t, x.Commit())
	require.Nil(t, x.span)
	require.NoError(t, x.Rollback())
}

// TestAttachedInside: a tracer that comes and goes at any two calls of a driver changes nothing that the program
// and the driver notice, and sees starts and ends that belong together.
func TestAttachedInside(t *testing.T) {
	p := eventtest.Provider(t, "sqlprobe")
	probes := New(p)
	for name, connection := range drivers {
		t.Run(name, func(t *testing.T) {
			run := func(tick func(call int)) (noticed, called []string) {
				log := &calls{}
				log.tick = func() { tick(len(log.list)) }
				db := sql.OpenDB(probes.Connector(testConnector{log, connection}))
				noticed = use(t, db)
				require.NoError(t, db.Close())
				return noticed, log.list
			}
			noticed, called := run(func(int) {})
			for from := range len(called) {
				starts, ends := map[string]int{}, map[string]int{}
				var stop func()
				attachedNoticed, attachedCalled := run(func(call int) {
					switch call {
					case from + 1:
						stop = p.Observe(func(e *stapsdt.Event) {
							if strings.HasSuffix(e.Probe().Name(), "__start") {
								starts[e.Arg(0).String()]++
							} else {
								ends[e.Arg(0).String()]++
							}
						})
					case from + 2 + from%7:
						stop()
						stop = nil
					}
				})
				if stop != nil {
					stop()
				}
				require.Equal(t, noticed, attachedNoticed, "attached at %d", from)
				require.Equal(t, called, attachedCalled, "attached at %d", from)
				for id, n := range ends {
					require.Equal(t, 1, n)
					require.Equal(t, 1, starts[id])
				}
			}
		})
	}
}
