package instrument

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
	"github.com/go-stapsdt/stapsdt/instrument/slogprobe"
	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
)

// service is a handler that does what handlers do: it logs, runs an operation, executes a
// query and asks another service. Both of these answer at once.
type service struct {
	logger *slog.Logger
	db     *sql.DB
	client http.RoundTripper
	work   *span.Operation[workStart, workEnd]
}

type (
	workStart struct{ Name string }
	workEnd   struct{ N int64 }
)

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	s.logger.DebugContext(ctx, "request")
	if s.work != nil {
		var sp *span.Span[workEnd]
		ctx, sp = s.work.Start(ctx, workStart{"request"})
		defer func() { sp.End(workEnd{1}, nil) }()
	}
	if _, err := s.db.ExecContext(ctx, "INSERT"); err != nil {
		panic(err)
	}
	if _, err := s.client.RoundTrip(r); err != nil {
		panic(err)
	}
}

// instant is a driver, and a service, that answers at once.
type instant struct{}

func (instant) Connect(context.Context) (driver.Conn, error) { return instant{}, nil }
func (instant) Driver() driver.Driver                        { return nil }
func (instant) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (instant) Close() error                                 { return nil }
func (instant) Begin() (driver.Tx, error)                    { return nil, driver.ErrSkip }

func (instant) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

func (instant) RoundTrip(*http.Request) (*http.Response, error) { return answer, nil }

var answer = &http.Response{StatusCode: 200, Body: http.NoBody}

// services returns the service without any probes, with all of them, and their provider.
func services(t testing.TB) (bare, probed http.Handler, p *stapsdt.Provider) {
	p = stapsdt.NewProvider("service")
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	logs := slog.NewTextHandler(io.Discard, nil)
	bare = &service{slog.New(logs), sql.OpenDB(instant{}), instant{}, nil}
	probed = httpprobe.NewServer(p).Handler(&service{
		slog.New(slogprobe.New(p).Handler(logs)),
		sql.OpenDB(sqlprobe.New(p).Connector(instant{})),
		httpprobe.NewClient(p).Transport(instant{}),
		span.New[workStart, workEnd](p, "work"),
	})
	return bare, probed, p
}

// TestOverhead: all packages together, installed and idle, add no allocation to a request.
func TestOverhead(t *testing.T) {
	testenv.NotRaced(t, "the detector allocates")
	testenv.NeedsOptimization(t, "the code is inlined")
	bare, probed, p := services(t)
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	serve := func(h http.Handler) func() { return func() { h.ServeHTTP(w, r) } }
	require.Equal(t, testing.AllocsPerRun(100, serve(bare)), testing.AllocsPerRun(100, serve(probed)))

	seen := map[string]bool{}
	defer p.Observe(func(e *stapsdt.Event) { seen[e.Probe().Name()] = true })()
	serve(probed)()
	require.Subset(t, slices.Collect(maps.Keys(seen)), []string{"request__start", "request__end", "query__end", "fetch__end", "log__record", "work__start", "work__end"})
}
