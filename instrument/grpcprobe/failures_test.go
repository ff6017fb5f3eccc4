package grpcprobe

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// TestPanic: a handler that does not return has an error. This one ends its goroutine, because
// a panic would end the test; gRPC runs the same functions for both.
func TestPanic(t *testing.T) {
	m := newProgram(t, &echo{
		say:  func(context.Context, string) (string, error) { runtime.Goexit(); return "", nil },
		talk: func(grpc.ServerStream) error { runtime.Goexit(); return nil },
	})
	rec := probetest.Record(t, m.Provider)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error)
	for _, run := range []func() error{
		func() error { _, err := m.say(ctx, "x"); return err },
		func() error { return m.stream(t, ctx).RecvMsg(&message{}) },
	} {
		rec.Reset()
		go func() { failed <- run() }()
		rpc := eventtest.Args(rec.Wait(1, testenv.Patience, probetest.OnlyNamed("rpc__end"))[0])
		require.Contains(t, rpc["error"], "no status was sent")
		require.EqualValues(t, codes.Canceled, rpc["code"])
	}
	cancel() // the client would wait forever
	for range 2 {
		require.Equal(t, codes.Canceled, status.Code(<-failed))
	}
	m.stop()
}

// TestUnknown: a method that the server does not have ends too.
func TestUnknown(t *testing.T) {
	m := newProgram(t, &echo{})
	rec := probetest.Record(t, m.Provider)
	for _, method := range []string{"/test.Echo/None", "/test.None/Say"} {
		rec.Reset()
		require.Equal(t, codes.Unimplemented, status.Code(m.conn.Invoke(t.Context(), method, &message{}, &message{})))
		rpc, call := ends(rec)
		require.Equal(t, method, rpc["method"])
		require.EqualValues(t, codes.Unimplemented, rpc["code"])
		require.EqualValues(t, codes.Unimplemented, call["code"])
	}
	m.stop()
	require.Len(t, rec.Events(probetest.OnlyNamed("rpc__end")), 1)
}

// TestCanceled: both sides say so, also if the handler does not mind.
func TestCanceled(t *testing.T) {
	for _, minds := range []bool{true, false} {
		began, proceed := make(chan bool), make(chan bool)
		m := newProgram(t, &echo{say: func(ctx context.Context, text string) (string, error) {
			if text == "other" {
				return "", nil
			}
			close(began)
			<-ctx.Done()
			if minds {
				return "", ctx.Err()
			}
			<-proceed
			return "late", nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-began
			cancel()
		}()
		rec := probetest.Record(t, m.Provider)
		_, err := m.say(ctx, "x")
		require.Equal(t, codes.Canceled, status.Code(err))
		call := eventtest.Args(rec.Events(probetest.OnlyNamed("call__end"))[0])
		require.EqualValues(t, codes.Canceled, call["code"])
		rpc := eventtest.Args(rec.Events(probetest.OnlyNamed("rpc__start"))[0])
		_, err = m.say(t.Context(), "other") // which the server receives after the end of the first one
		require.NoError(t, err)
		close(proceed)
		for _, e := range rec.Wait(2, testenv.Patience, probetest.OnlyNamed("rpc__end")) {
			if e := eventtest.Args(e); e["id"] == rpc["id"] {
				require.EqualValues(t, codes.Canceled, e["code"])
				require.Contains(t, e["error"], "canceled")
				rpc = nil
			}
		}
		require.Nil(t, rpc, "it has not ended")
	}
}

// TestUnreachable: a call without any server ends, and says why.
func TestUnreachable(t *testing.T) {
	p := eventtest.Provider(t, "grpcprobe")
	conn, err := grpc.NewClient("passthrough:///", grpc.WithStatsHandler(NewClient(p).StatsHandler()), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody there") }))
	require.NoError(t, err)
	defer conn.Close()
	rec := probetest.Record(t, p)
	require.Error(t, conn.Invoke(t.Context(), say, &message{}, &message{}))
	call := eventtest.Args(rec.Events(probetest.OnlyNamed("call__end"))[0])
	require.EqualValues(t, codes.Unavailable, call["code"])
	require.Contains(t, call["error"], "nobody there")
	require.Equal(t, "", call["remote"])
}

// TestNeverClosed: a stream that is left open ends with its connection.
func TestNeverClosed(t *testing.T) {
	m := newProgram(t, &echo{talk: repeat})
	rec := probetest.Record(t, m.Provider)
	m.stream(t, t.Context())
	rec.Wait(1, testenv.Patience, probetest.OnlyNamed("rpc__start"))
	require.Empty(t, rec.Events(probetest.OnlyNamed("call__end")))
	m.stop()
	rpc, call := ends(rec)
	require.EqualValues(t, codes.Canceled, call["code"])
	require.NotZero(t, rpc["code"])
}

// TestGarbage: an RPC whose end gRPC never tells is forgotten.
func TestGarbage(t *testing.T) {
	p := eventtest.Provider(t, "grpcprobe")
	h := NewClient(p).StatsHandler().(*handler)
	probetest.Record(t, p)
	func() {
		for range 10 {
			require.NotEqual(t, t.Context(), h.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: say}))
		}
	}()
	require.NotZero(t, h.running.count.Load())
	require.Eventually(t, func() bool {
		runtime.GC()
		return h.running.count.Load() == 0
	}, testenv.Patience, time.Millisecond)
	h.running.ids.Range(func(id, _ any) bool { t.Fatal(id); return false })
}
