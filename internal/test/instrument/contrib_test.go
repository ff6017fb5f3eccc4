package instrument

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
	"github.com/go-stapsdt/stapsdt/instrument/otelprobe"
	"github.com/go-stapsdt/stapsdt/instrument/slogprobe"
	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/XSAM/otelsql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// shop is a program that uses otelhttp, otelgrpc and otelsql: a web server that asks a
// database and a service. request asks the server.
func shop(t *testing.T, spans trace.TracerProvider) (request func()) {
	services := grpc.NewServer(grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(spans))))
	grpc_health_v1.RegisterHealthServer(services, health.NewServer())
	listener, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	go services.Serve(listener)
	t.Cleanup(services.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(spans))))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	db := otelsql.OpenDB(instant{}, otelsql.WithTracerProvider(spans))
	mux := http.NewServeMux()
	mux.HandleFunc("/items", func(w http.ResponseWriter, r *http.Request) {
		serve(r.Context(), t, db, grpc_health_v1.NewHealthClient(conn))
	})
	server := httptest.NewServer(otelhttp.NewHandler(mux, "web", otelhttp.WithTracerProvider(spans)))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport, otelhttp.WithTracerProvider(spans))}
	return func() {
		answer, err := client.Get(server.URL + "/items")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
	}
}

func serve(ctx context.Context, t *testing.T, db *sql.DB, service grpc_health_v1.HealthClient) {
	_, err := db.ExecContext(ctx, "INSERT")
	assert.NoError(t, err)
	_, err = service.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	assert.NoError(t, err)
}

// TestContributed: one processor turns the spans of all instrumentation of a program into
// probes, although the program samples none of them.
func TestContributed(t *testing.T) {
	app := eventtest.Provider(t, "contributed")
	probes := otelprobe.New(app)
	request := shop(t, sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(probes.SpanProcessor()),
		sdktrace.WithSampler(probes.Sampler(sdktrace.NeverSample()))))
	request()
	rec := probetest.Record(t, app)
	request()
	const spans = 5 // of HTTP's and gRPC's two sides, and of SQL
	seen := func(probe string) []*stapsdt.Event { return rec.Events(eventtest.Named(probe)) }
	require.Eventually(t, func() bool {
		ended := len(seen("span__end"))
		return ended >= spans && ended == len(seen("span__start"))
	}, testenv.Patience, time.Millisecond)
	var got []string
	for _, e := range seen("span__end") {
		args := eventtest.Args(e)
		scope := args["scope"].(string)
		got = append(got, fmt.Sprintf("%s %s", scope[strings.LastIndex(scope, "/")+1:], args["kind"]))
	}
	require.Subset(t, got, []string{"otelhttp client", "otelhttp server", "otelgrpc client", "otelgrpc server", "otelsql client"})
}

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
