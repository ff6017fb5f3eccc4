package grpcprobe

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	say  = "/test.Echo/Say"  // one message, one answer
	talk = "/test.Echo/Talk" // streams in both directions
)

var service = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var in message
		if err := decode(&in); err != nil {
			return nil, err
		}
		answer, err := srv.(*echo).say(ctx, in.Value)
		return wrapperspb.String(answer), err
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Talk", ServerStreams: true, ClientStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
		return srv.(*echo).talk(stream)
	}}},
}

func TestUnary(t *testing.T) {
	var served uint64
	m := newProgram(t, &echo{say: func(ctx context.Context, text string) (string, error) {
		served = span.ID(ctx)
		return text + text, nil
	}})
	operation := span.NewOperation[struct{}, struct{}](m.Provider, "operation")
	rec := probetest.Record(t, m.Provider)
	ctx, outer := operation.Start(t.Context(), struct{}{})
	answer, err := m.say(ctx, "hello")
	require.NoError(t, err)
	require.Equal(t, "hellohello", answer)
	rpc, call := ends(rec)
	require.Equal(t, served, rpc["id"])
	require.Equal(t, outer.ID(), call["parent"])
	for _, e := range []map[string]any{rpc, call} {
		require.Positive(t, e["nanoseconds"])
		delete(e, "nanoseconds")
	}
	long, short := size("hellohello"), size("hello")
	require.Equal(t, map[string]any{"id": served, "parent": uint64(0), "error": "", "method": say, "code": uint64(0),
		"received": short, "sent": long, "received_messages": int64(1), "sent_messages": int64(1), "remote": ""}, rpc)
	require.Equal(t, map[string]any{"id": call["id"], "parent": outer.ID(), "error": "", "method": say, "code": uint64(0),
		"received": long, "sent": short, "received_messages": int64(1), "sent_messages": int64(1), "remote": ""}, call)
	require.Equal(t, map[string]any{"id": served, "parent": uint64(0), "method": say, "remote": ""}, eventtest.Args(rec.Events(probetest.OnlyNamed("rpc__start"))[0]))
	require.Equal(t, map[string]any{"id": call["id"], "parent": outer.ID(), "method": say}, eventtest.Args(rec.Events(probetest.OnlyNamed("call__start"))[0]))
}

func TestStream(t *testing.T) {
	m := newProgram(t, &echo{talk: repeat})
	rec := probetest.Record(t, m.Provider)
	stream := m.stream(t, t.Context())
	for _, text := range []string{"a", "bcd", ""} {
		require.NoError(t, stream.SendMsg(wrapperspb.String(text)))
		var answer message
		require.NoError(t, stream.RecvMsg(&answer))
		require.Equal(t, text, answer.Value)
	}
	require.NoError(t, stream.CloseSend())
	require.Equal(t, io.EOF, stream.RecvMsg(&message{}))
	rpc, call := ends(rec)
	for _, e := range []map[string]any{rpc, call} {
		require.Equal(t, talk, e["method"])
		require.Equal(t, size("a")+size("bcd"), e["sent"])
		require.Equal(t, size("a")+size("bcd"), e["received"])
		require.EqualValues(t, 3, e["sent_messages"])
		require.EqualValues(t, 3, e["received_messages"])
		require.Equal(t, "", e["error"])
	}
}

// foreign is a context of the program that must not be asked for the handler's key.
type foreign struct {
	context.Context
	t *testing.T
}

func (c foreign) Value(key any) any {
	if _, asked := key.(*handler); asked {
		c.t.Error("it was asked")
	}
	return c.Context.Value(key)
}

// TestUntracedStart: a stream that began untraced has no end, also if others are running, and asks nothing of the program's
// context.
func TestUntracedStart(t *testing.T) {
	m := newProgram(t, &echo{talk: repeat})
	ctx := foreign{t.Context(), t}
	exchange := func(stream grpc.ClientStream) {
		require.NoError(t, stream.SendMsg(wrapperspb.String("x")))
		require.NoError(t, stream.RecvMsg(&message{})) // so that the server has begun
	}
	early := m.stream(t, ctx)
	exchange(early)
	rec := probetest.Record(t, m.Provider)
	late := m.stream(t, ctx)
	exchange(late)
	exchange(early)
	for _, stream := range []grpc.ClientStream{early, late} {
		require.NoError(t, stream.CloseSend())
		require.Equal(t, io.EOF, stream.RecvMsg(&message{}))
	}
	ends(rec)
	m.stop()
	require.Len(t, rec.Events(probetest.OnlyNamed("rpc__end")), 1)
	require.Len(t, rec.Events(probetest.OnlyNamed("call__end")), 1)
}

// TestNested: a call with the context of another one is not taken for that one, if only that
// one was traced when it began.
func TestNested(t *testing.T) {
	m := newProgram(t, &echo{talk: repeat, say: func(_ context.Context, text string) (string, error) { return text, nil }})
	stop := m.Observe(func(*stapsdt.Event) {})
	outer := m.stream(t, t.Context())
	stop()
	_, err := m.say(outer.Context(), "inner")
	require.NoError(t, err)
	rec := probetest.Record(t, m.Provider)
	_, err = m.say(outer.Context(), "inner") // which is a part of the other
	require.NoError(t, err)
	require.NoError(t, outer.CloseSend())
	require.Equal(t, io.EOF, outer.RecvMsg(&message{}))
	calls := rec.Wait(2, testenv.Patience, probetest.OnlyNamed("call__end"))
	inner, call := eventtest.Args(calls[0]), eventtest.Args(calls[1])
	require.Equal(t, talk, call["method"])
	require.Zero(t, call["sent_messages"])
	require.Equal(t, say, inner["method"])
	require.Equal(t, call["id"], inner["parent"])
}

// TestTraceparent: the probe has the ids of the metadata, if there are any.
func TestTraceparent(t *testing.T) {
	m := newProgram(t, &echo{say: func(context.Context, string) (string, error) { return "", nil }})
	rec := probetest.Record(t, m.Provider)
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, text := range []string{"00-" + trace + "-" + parent + "-01", "nonsense"} {
		_, err := m.say(metadata.AppendToOutgoingContext(t.Context(), "traceparent", text), "x")
		require.NoError(t, err)
	}
	rec.Wait(2, testenv.Patience, probetest.OnlyNamed("rpc__end"))
	events := rec.Events(probetest.OnlyNamed("rpc__context"))
	require.Len(t, events, 1)
	e := eventtest.Args(events[0])
	require.Equal(t, trace+parent, fmt.Sprintf("%016x%016x%016x", e["trace_high"], e["trace_low"], e["span"]))
	require.Equal(t, eventtest.Args(rec.Events(probetest.OnlyNamed("rpc__start"))[0])["id"], e["id"])
}

// TestConcurrent streams, some of which are canceled, all end once, while tracers come and go.
func TestConcurrent(t *testing.T) {
	m := newProgram(t, &echo{talk: repeat})
	rec := probetest.Record(t, m.Provider)
	const goroutines, streams = 8, 20
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := range streams {
				stop := m.Observe(func(*stapsdt.Event) {})
				ctx, cancel := context.WithCancel(context.Background())
				stream, err := m.conn.NewStream(ctx, &service.Streams[0], talk)
				if err != nil {
					t.Error(err)
				} else {
					go stream.SendMsg(wrapperspb.String("x")) // concurrently with the end
				}
				stop()
				if err == nil && i%2 == 0 {
					_ = stream.RecvMsg(&message{})
				}
				cancel()
			}
		})
	}
	all.Wait()
	ids := func(n int, name string) (list []any) {
		for _, e := range rec.Wait(n, testenv.Patience, probetest.OnlyNamed(name)) {
			list = append(list, eventtest.Args(e)["id"])
		}
		return list
	}
	require.ElementsMatch(t, ids(goroutines*streams, "call__start"), ids(goroutines*streams, "call__end"))
	m.stop()
	served := ids(0, "rpc__start")
	require.ElementsMatch(t, served, ids(len(served), "rpc__end"))
}

// TestIdle: while nothing traces, contexts are returned as they came, and nothing is
// allocated or kept.
func TestIdle(t *testing.T) {
	p := eventtest.Provider(t, "grpcprobe")
	var idle []func()
	for _, h := range []stats.Handler{NewServer(p).StatsHandler(), NewClient(p).StatsHandler(), NewServer(nil).StatsHandler(), NewClient(nil).StatsHandler()} {
		ctx, info := t.Context(), &stats.RPCTagInfo{FullMethodName: say}
		begin, end := &stats.Begin{}, &stats.End{}
		run := func() {
			if h.TagRPC(ctx, info) != ctx {
				t.Fatal("the context is another one")
			}
			h.HandleRPC(ctx, begin)
			h.HandleRPC(ctx, end)
		}
		run()
		require.Equal(t, ctx, h.TagConn(ctx, &stats.ConnTagInfo{}))
		require.Zero(t, h.(*handler).running.count.Load())
		idle = append(idle, run)
	}
	testenv.NotRaced(t, "the detector allocates")
	for _, run := range idle {
		require.Zero(t, testing.AllocsPerRun(100, run))
	}
}

// BenchmarkUnary measures an RPC in one process: without any handler, with idle probes, and while they are observed.
func BenchmarkUnary(b *testing.B) {
	e := &echo{say: func(_ context.Context, text string) (string, error) { return text, nil }}
	measure := func(name string, m *program) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := m.say(b.Context(), "x"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	bare, m := &program{}, newProgram(b, e)
	bare.connect(b, e, nil)
	measure("bare", bare)
	measure("idle", m)
	defer m.Observe(func(*stapsdt.Event) {})()
	measure("observed", m)
}
