//go:build linux

package instrument

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/grpcprobe"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// interoperate runs gRPC's own tests of interoperability that need no credentials. One that fails
// ends the process.
func interoperate(ctx context.Context, conn *grpc.ClientConn) {
	client := testgrpc.NewTestServiceClient(conn)
	for _, do := range []func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption){
		interop.DoEmptyUnaryCall, interop.DoLargeUnaryCall, interop.DoClientStreaming, interop.DoServerStreaming,
		interop.DoPingPong, interop.DoEmptyStream, interop.DoCancelAfterBegin,
		interop.DoCancelAfterFirstResponse, interop.DoCustomMetadata, interop.DoStatusCodeAndMessage, interop.DoSpecialStatusMessage,
	} {
		do(ctx, client)
	}
	interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
	interop.DoUnimplementedMethod(ctx, conn)
}

// TestInterop: gRPC's own tests pass with the probes, idle, observed, and while observers come and go. The one of a call
// that has a millisecond is not among them.
func TestInterop(t *testing.T) {
	testenv.Long(t, "it runs gRPC's own tests several times")
	const variable = "STAPSDT_TEST_INTEROP"
	if os.Getenv(variable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestInterop$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestInterop")
		return
	}
	p := eventtest.Provider(t, "interop")
	served, calls := grpcprobe.NewServer(p), grpcprobe.NewClient(p)
	goroutines := runtime.NumGoroutine()
	run := func() {
		server := grpc.NewServer(grpc.StatsHandler(served.StatsHandler()), grpc.WaitForHandlers(true))
		testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
		listener, err := net.Listen("tcp", "localhost:0")
		require.NoError(t, err)
		go server.Serve(listener)
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithStatsHandler(calls.StatsHandler()), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		defer cancel()
		interoperate(ctx, conn)
		require.NoError(t, conn.Close())
		server.Stop()
		eventtest.Settle(t, goroutines)
	}
	run()
	rec := probetest.Record(t, p)
	run()
	for _, side := range []string{"rpc", "call"} {
		starts, ends := rec.Events(eventtest.Named(side+"__start")), rec.Events(eventtest.Named(side+"__end"))
		require.Len(t, ends, len(starts))
		found := map[uint64]bool{}
		for _, e := range ends {
			found[eventtest.Args(e)["code"].(uint64)] = true
		}
		for _, code := range []codes.Code{codes.OK, codes.Unknown, codes.Unimplemented, codes.Canceled} {
			require.True(t, found[uint64(code)], "%s has no %v", side, code)
		}
	}
	done := make(chan struct{})
	time.AfterFunc(2*time.Second, func() { close(done) })
	go func() {
		for {
			p.Observe(func(*stapsdt.Event) {})()
		}
	}()
	goroutines = runtime.NumGoroutine()
	for {
		select {
		case <-done:
			return
		default:
			run()
		}
	}
}
