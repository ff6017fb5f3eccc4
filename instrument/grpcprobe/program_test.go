package grpcprobe

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type message = wrapperspb.StringValue

// program is a program that has installed the package: a server, and a client of it.
type program struct {
	*stapsdt.Provider
	server *ServerProbes
	client *ClientProbes
	conn   *grpc.ClientConn
	stop   func()
}

// echo is what the server does.
type echo struct {
	say  func(ctx context.Context, text string) (string, error)
	talk func(stream grpc.ServerStream) error
}

// repeat answers each message with itself.
func repeat(stream grpc.ServerStream) error {
	for {
		var in message
		if err := stream.RecvMsg(&in); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if err := stream.SendMsg(&in); err != nil {
			return err
		}
	}
}

func newProgram(t testing.TB, e *echo) *program {
	p := eventtest.Provider(t, "grpcprobe")
	m := &program{Provider: p, server: NewServer(p), client: NewClient(p)}
	m.connect(t, e, []grpc.ServerOption{grpc.StatsHandler(m.server.StatsHandler())}, grpc.WithStatsHandler(m.client.StatsHandler()))
	return m
}

// connect starts the server and connects to it.
func (m *program) connect(t testing.TB, e *echo, options []grpc.ServerOption, dial ...grpc.DialOption) {
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(append(options, grpc.WaitForHandlers(true))...)
	server.RegisterService(&service, e)
	served := make(chan bool)
	go func() {
		_ = server.Serve(listener)
		close(served)
	}()
	conn, err := grpc.NewClient("passthrough:///", append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	require.NoError(t, err)
	m.conn = conn
	m.stop = sync.OnceFunc(func() {
		require.NoError(t, conn.Close())
		server.Stop()
		<-served
	})
	t.Cleanup(m.stop)
}

// say calls the unary method.
func (m *program) say(ctx context.Context, text string) (string, error) {
	var answer message
	err := m.conn.Invoke(ctx, say, wrapperspb.String(text), &answer)
	return answer.Value, err
}

// stream opens a stream.
func (m *program) stream(t testing.TB, ctx context.Context) grpc.ClientStream {
	stream, err := m.conn.NewStream(ctx, &service.Streams[0], talk)
	require.NoError(t, err)
	return stream
}

// ends returns the ends of both sides, when both have ended.
func ends(rec *probetest.Recorder) (rpc, call map[string]any) {
	return eventtest.Args(rec.Wait(1, testenv.Patience, probetest.OnlyNamed("rpc__end"))[0]), eventtest.Args(rec.Wait(1, testenv.Patience, probetest.OnlyNamed("call__end"))[0])
}

// size is that of a message with a text.
func size(text string) int64 { return int64(proto.Size(wrapperspb.String(text))) }
