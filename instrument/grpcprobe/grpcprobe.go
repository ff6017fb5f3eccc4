// Package grpcprobe reports the RPCs of gRPC servers and clients to tracers, streams included.
//
//	app := stapsdt.NewProvider("shop")
//	served := grpcprobe.NewServer(app)
//	calls := grpcprobe.NewClient(app)
//	err := app.Load()
//	...
//	server := grpc.NewServer(grpc.StatsHandler(served.StatsHandler()))
//	conn, err := grpc.NewClient(target, grpc.WithStatsHandler(calls.StatsHandler()))
//
// Both report spans: see package span for their IDs, parents, durations and errors. If a
// client's RPC uses the context of an RPC that is being served, the latter is its parent.
//
// # What differs while traced
//
// The contexts of RPCs are derived from those that gRPC or the program has made, and are of
// another type. The only method of the program's values that the package calls is Error of the
// error that an RPC ended with. Therefore
//
//   - remote is empty if the address is of a type that is neither package net's nor gRPC's own;
//   - code is Unknown if a handler returned an error that is neither a status of gRPC's nor
//     wraps one by fmt.Errorf, such as an error of the program's own type with a method GRPCStatus;
//   - an RPC has no end if another stats.Handler puts it into a context whose type is not of
//     package context. Install this package's handler after such a handler.
//
// An RPC keeps at most 448 additional bytes on each side, until it has ended and its
// context is garbage. It keeps no thread, no goroutine and no lock.
//
// # Cost
//
// While nothing traces the probes, the handlers only test a few bytes. However, gRPC makes the
// events for any handler, with some fifteen allocations on each side of an RPC. A program that
// has another handler, such as otelgrpc's, makes them already.
package grpcprobe

import (
	"context"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/operation"
	"github.com/go-stapsdt/stapsdt/span"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
)

// ServerProbes reports the RPCs that a server serves. [NewServer] makes it: the zero ServerProbes
// must not be used. Its method, and the handlers that it returns, are safe for concurrent use. It
// has these probes:
//
//	rpc__start(id, parent, method, remote)
//	rpc__end(id, parent, nanoseconds, error, method, code, received, sent,
//		received_messages, sent_messages, remote)
//	rpc__context(id, trace_high, trace_low, span)
//
// method is /SERVICE/METHOD, and remote is the address of the client. code is a codes.Code, 0
// for OK. received and sent are the bytes of the messages, before they are compressed, and
// received_messages and sent_messages are their numbers. nanoseconds is the time until the handler
// has returned and its status is sent. If there was no error and yet no status was sent, code is
// Canceled and error describes this: the RPC was canceled, or its handler panicked.
//
// rpc__context has the IDs of the traceparent in the RPC's metadata, if it has a valid one.
// [span.WithTraceContext] replaces this.
type ServerProbes struct {
	rpcs *span.Operation[rpcStart, end]
}

type rpcStart struct{ Method, Remote string }

// end holds the fields of rpc__end and call__end.
type end struct {
	Method           string
	Code             uint32
	Received         int64
	Sent             int64
	ReceivedMessages int64
	SentMessages     int64
	Remote           string
}

// NewServer defines the probes of a server. If the provider has probes of these names with other
// arguments, its Load reports it. With a nil provider nothing is reported.
func NewServer(p *stapsdt.Provider, opts ...span.Option) *ServerProbes {
	opts = append([]span.Option{span.WithTraceContext(fromMetadata)}, opts...)
	return &ServerProbes{span.NewOperation[rpcStart, end](p, "rpc", opts...)}
}

// StatsHandler returns the handler for grpc.StatsHandler.
func (s *ServerProbes) StatsHandler() stats.Handler {
	return &handler{
		server: true,
		start: func(ctx context.Context, method string) (context.Context, *rpc) {
			if !s.rpcs.Enabled() {
				return ctx, nil
			}
			remote := ""
			if p, ok := peer.FromContext(ctx); ok {
				remote = address(p.Addr)
			}
			ctx, sp := s.rpcs.Start(ctx, rpcStart{method, remote})
			return ctx, newRPC(sp, method, remote)
		},
	}
}

// fromMetadata is the TraceContextFunc of an RPC that is served: the traceparent in its metadata.
func fromMetadata(ctx context.Context) (traceID [16]byte, spanID [8]byte, ok bool) {
	if list := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(list) == 1 {
		return operation.ParseTraceparent(list[0])
	}
	return traceID, spanID, false
}

// ClientProbes reports the RPCs that a program calls. [NewClient] makes it: the zero ClientProbes
// must not be used. Its method, and the handlers that it returns, are safe for concurrent use. It
// has these probes:
//
//	call__start(id, parent, method)
//	call__end(id, parent, nanoseconds, error, method, code, received, sent,
//		received_messages, sent_messages, remote)
//
// The arguments are like those of [ServerProbes]. remote is the address of the server, or empty if
// there was no connection to one. If gRPC retries a call, each attempt is reported. A stream ends
// as grpc.ClientConn.NewStream describes; a stream that the program neither reads to its end nor
// cancels has no end before its connection is closed.
//
// [span.WithTraceContext] adds call__context.
type ClientProbes struct {
	calls *span.Operation[callStart, end]
}

type callStart struct{ Method string }

// NewClient defines the probes of a client. If the provider has probes of these names with other
// arguments, its Load reports it. With a nil provider nothing is reported.
func NewClient(p *stapsdt.Provider, opts ...span.Option) *ClientProbes {
	return &ClientProbes{span.NewOperation[callStart, end](p, "call", opts...)}
}

// StatsHandler returns the handler for grpc.WithStatsHandler.
func (c *ClientProbes) StatsHandler() stats.Handler {
	return &handler{start: func(ctx context.Context, method string) (context.Context, *rpc) {
		ctx, sp := c.calls.Start(ctx, callStart{method})
		return ctx, newRPC(sp, method, "")
	}}
}
