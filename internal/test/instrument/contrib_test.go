package instrument

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/otelprobe"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

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
	seen := func(probe string) []*stapsdt.Event { return rec.Events(probetest.OnlyNamed(probe)) }
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

// instant is a driver that answers at once.
type instant struct{}

func (instant) Connect(context.Context) (driver.Conn, error) { return instant{}, nil }
func (instant) Driver() driver.Driver                        { return nil }
func (instant) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (instant) Close() error                                 { return nil }
func (instant) Begin() (driver.Tx, error)                    { return nil, driver.ErrSkip }

func (instant) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}
