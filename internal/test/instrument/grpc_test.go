//go:build linux && (amd64 || arm64)

package instrument

import (
	"context"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/grpcprobe"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// rpcs prints what it sees of RPCs, and pairs them as pairing does.
const rpcs = `
usdt:FILE:rpcs:call__start { @began[arg0] = nsecs; }

usdt:FILE:rpcs:rpc__start
{
	@began[arg0] = nsecs;
	printf("rpc %s %s\n", str(arg2), str(arg3));
}

usdt:FILE:rpcs:rpc__end /@began[arg0]/
{
	printf("rpc %s %d %s\n", str(arg4), arg5, str(arg3));
	delete(@began[arg0]);
}

usdt:FILE:rpcs:call__end /@began[arg0]/
{
	printf("call %s %d %s\n", str(arg4), arg5, str(arg3));
	delete(@began[arg0]);
}

END
{
	print(@began);
}`

// TestGRPC: bpftrace sees the RPCs of a server and its client, one of which is a stream.
func TestGRPC(t *testing.T) {
	p := stapsdt.NewProvider("rpcs", stapsdt.WithDir(t.TempDir()))
	served, calls := grpcprobe.NewServer(p), grpcprobe.NewClient(p)
	require.NoError(t, p.Load())
	defer func() { require.NoError(t, p.Close()) }()
	server := grpc.NewServer(grpc.StatsHandler(served.StatsHandler()))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithStatsHandler(calls.StatsHandler()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	tr := tracetest.Bpftrace(t, strings.ReplaceAll(rpcs, "FILE", p.Path()), "-p", strconv.Itoa(os.Getpid()))

	_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "none"})
	require.Equal(t, codes.NotFound, status.Code(err))
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	cancel()
	_, err = stream.Recv()
	require.Equal(t, codes.Canceled, status.Code(err))

	const check, watch = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
	canceled := "rpc error: code = Canceled desc = context canceled"
	want := []string{
		"rpc " + check + " ADDRESS", "rpc " + check + " 0 ", "call " + check + " 0 ",
		"rpc " + check + " ADDRESS", "rpc " + check + " 5 rpc error: code = NotFound desc = unknown service", "call " + check + " 5 rpc error: code = NotFound desc = unknown service",
		"rpc " + watch + " ADDRESS", "rpc " + watch + " 1 rpc error: code = Canceled desc = Stream has ended.", "call " + watch + " 1 " + canceled,
	}
	tr.WaitLines(len(want), testenv.Patience)
	var got []string
	for line := range strings.Lines(tr.Stop()) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			got = append(got, address.ReplaceAllString(line, "ADDRESS"))
		}
	}
	require.ElementsMatch(t, want, got)
}

var address = regexp.MustCompile(`(127\.0\.0\.1|\[::1\]):\d+$`)
