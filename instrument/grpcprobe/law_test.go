package grpcprobe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// rpcBytes is what an RPC keeps on each side while it is observed.
const rpcBytes = 448

// nosy is an error whose methods are counted. They panic if calls is nil.
type nosy struct {
	calls *atomic.Int64
	code  codes.Code
}

func (e nosy) count()                     { e.calls.Add(1) }
func (e nosy) Error() string              { return "nosy" }
func (e nosy) GRPCStatus() *status.Status { e.count(); return status.New(e.code, "nosy") }
func (e nosy) Is(error) bool              { e.count(); return false }
func (e nosy) As(any) bool                { e.count(); return false }
func (e nosy) Unwrap() error              { e.count(); return nil }

// TestErrorsOfTheProgram: gRPC calls the methods of an error that a handler returns as often as
// untraced, and the client has the same. The probe has the text, and the code if gRPC has made it.
func TestErrorsOfTheProgram(t *testing.T) {
	var calls atomic.Int64
	own := nosy{&calls, codes.NotFound}
	var answer error
	run := func(record func(p *stapsdt.Provider)) (n int64, got []error) {
		m := newProgram(t, &echo{say: func(context.Context, string) (string, error) { return "", answer },
			talk: func(grpc.ServerStream) error { return answer }})
		record(m.Provider)
		calls.Store(0)
		_, err := m.say(t.Context(), "x")
		stream := m.stream(t, t.Context())
		got = []error{err, stream.RecvMsg(&message{})}
		m.stop() // waits for the server, which looks at the error when the client has it already
		return calls.Load(), got
	}
	for _, tt := range []struct {
		answer     error
		code, want codes.Code
		text       string
	}{
		{status.Error(codes.NotFound, "no item"), codes.NotFound, codes.NotFound, "rpc error: code = NotFound desc = no item"},
		{errors.New("plain"), codes.Unknown, codes.Unknown, "rpc error: code = Unknown desc = plain"},
		{context.DeadlineExceeded, codes.DeadlineExceeded, codes.DeadlineExceeded, "rpc error: code = DeadlineExceeded desc = context deadline exceeded"},
		{own, codes.NotFound, codes.Unknown, "nosy"},
		{fmt.Errorf("wrapped: %w", own), codes.NotFound, codes.Unknown, "wrapped: nosy"},
		{errors.Join(own, io.EOF), codes.NotFound, codes.Unknown, "nosy\nEOF"},
		{fmt.Errorf("twice: %w", fmt.Errorf("wrapped: %w", status.Error(codes.Aborted, "a"))), codes.Aborted, codes.Aborted,
			"twice: wrapped: rpc error: code = Aborted desc = a"},
	} {
		answer = tt.answer
		untraced, want := run(func(*stapsdt.Provider) {})
		var rec *probetest.Recorder
		traced, got := run(func(p *stapsdt.Provider) { rec = probetest.Record(t, p) })
		require.Equal(t, untraced, traced)
		require.Equal(t, tt.code, status.Code(got[0]))
		for i, err := range got {
			require.Equal(t, want[i].Error(), err.Error())
		}
		for _, e := range rec.Wait(2, testenv.Patience, probetest.OnlyNamed("rpc__end")) {
			require.EqualValues(t, tt.want, eventtest.Args(e)["code"])
			require.Equal(t, tt.text, eventtest.Args(e)["error"])
		}
		for _, e := range rec.Wait(2, testenv.Patience, probetest.OnlyNamed("call__end")) {
			require.EqualValues(t, tt.code, eventtest.Args(e)["code"])
		}
	}
}

// TestCode: no method of an error is called that could be the program's.
func TestCode(t *testing.T) {
	require.Equal(t, codes.OK, code(nil))
	require.Equal(t, codes.Canceled, code(context.Canceled))
	require.Equal(t, codes.DeadlineExceeded, code(fmt.Errorf("%w", context.DeadlineExceeded)))
	for _, err := range []error{nosy{}, fmt.Errorf("%w", nosy{}), errors.Join(nosy{}), (*nosy)(nil)} {
		require.Equal(t, codes.Unknown, code(err))
	}
}

// secret is an address that must not be asked.
type secret struct{ net.Addr }

// TestAddress: only types are asked whose methods are known.
func TestAddress(t *testing.T) {
	for want, a := range map[string]net.Addr{
		"127.0.0.1:80": &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80},
		"/x":           &net.UnixAddr{Name: "/x"},
		"<nil>":        (*net.TCPAddr)(nil), // as net prints it
	} {
		require.Equal(t, want, address(a))
	}
	for _, a := range []net.Addr{nil, secret{}, &secret{}, (*secret)(nil)} {
		require.Empty(t, address(a))
	}
	p, rec := eventtest.Recorded(t, "grpcprobe")
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: secret{}})
	NewServer(p).StatsHandler().TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: say})
	require.Equal(t, "", eventtest.Args(rec.Events()[0])["remote"])
	c := NewClient(p).StatsHandler()
	ctx = c.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: say})
	c.HandleRPC(ctx, &stats.OutHeader{RemoteAddr: secret{}})
}

// TestServedByHTTP: the address of a client of net/http's server is known.
func TestServedByHTTP(t *testing.T) {
	p, rec := eventtest.Recorded(t, "grpcprobe")
	server := grpc.NewServer(grpc.StatsHandler(NewServer(p).StatsHandler()))
	server.RegisterService(&service, &echo{})
	r := httptest.NewRequest("POST", say, http.NoBody)
	r.ProtoMajor, r.ProtoMinor = 2, 0
	r.Header.Set("Content-Type", "application/grpc")
	server.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, r.RemoteAddr, eventtest.Args(rec.Wait(1, testenv.Patience, probetest.OnlyNamed("rpc__start"))[0])["remote"])
}

// TestEnded: an RPC that has ended is forgotten at once, though its context is still in use.
func TestEnded(t *testing.T) {
	p, rec := eventtest.Recorded(t, "grpcprobe")
	h := NewClient(p).StatsHandler().(*handler)
	ctx := h.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: say})
	require.EqualValues(t, 1, h.running.count.Load())
	for range 2 {
		h.HandleRPC(ctx, &stats.End{})
		require.Zero(t, h.running.count.Load())
	}
	require.Len(t, rec.Events(probetest.OnlyNamed("call__end")), 1)
}

// TestInFlight: streams keep on both sides what the package says, and nothing when they have
// ended.
func TestInFlight(t *testing.T) {
	m := newProgram(t, &echo{talk: repeat})
	handlers := []*handler{}
	for _, h := range []stats.Handler{m.server.StatsHandler(), m.client.StatsHandler()} {
		handlers = append(handlers, h.(*handler))
	}
	m.stop()
	m.connect(t, &echo{talk: repeat}, []grpc.ServerOption{grpc.StatsHandler(handlers[0])}, grpc.WithStatsHandler(handlers[1]))
	eventtest.InFlight(t, m.Provider, 2*rpcBytes, func() func() {
		stream := m.stream(t, context.Background())
		require.NoError(t, stream.SendMsg(wrapperspb.String("x")))
		require.NoError(t, stream.RecvMsg(&message{})) // so that the server has begun
		return func() {
			require.NoError(t, stream.CloseSend())
			require.Equal(t, io.EOF, stream.RecvMsg(&message{}))
		}
	})
	for _, h := range handlers {
		require.Eventually(t, func() bool { return h.running.count.Load() == 0 }, testenv.Patience, time.Millisecond)
	}
}
