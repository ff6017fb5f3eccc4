package grpcprobe

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt/span"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// handler is the stats.Handler of a server or a client. In contexts it is the key of an RPC
// that is reported.
type handler struct {
	server bool
	// start starts an RPC. It returns ctx and nil if the RPC is not reported.
	start   func(ctx context.Context, method string) (context.Context, *rpc)
	running rpcTable
}

// rpc is an RPC that is reported. Its events come from several goroutines.
type rpc struct {
	span           *span.Span[end]
	method         string
	remote         atomic.Pointer[string]
	received, sent traffic
	begun          atomic.Bool // the server knows the method
	answered       atomic.Bool // it has sent the status
	ended          atomic.Bool
	garbage        runtime.Cleanup // of running
}

// traffic counts the bytes and messages in one direction.
type traffic struct{ bytes, messages atomic.Int64 }

func (t *traffic) add(bytes int) {
	t.bytes.Add(int64(bytes))
	t.messages.Add(1)
}

// newRPC returns the RPC of a span, or nil if there is none.
func newRPC(sp *span.Span[end], method, remote string) *rpc {
	if sp == nil {
		return nil
	}
	r := &rpc{span: sp, method: method}
	r.keepRemote(remote)
	return r
}

// keepRemote is a function of its own so that nothing is allocated for the address of an RPC that
// is not reported.
func (r *rpc) keepRemote(remote string) { r.remote.Store(&remote) }

func (h *handler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	mine, r := h.start(ctx, info.FullMethodName)
	if r == nil {
		if h.running.has(ctx) {
			return context.WithValue(ctx, h, r) // else it would be mistaken for this context's RPC
		}
		return ctx
	}
	h.running.add(r)
	return context.WithValue(mine, h, r)
}

func (h *handler) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if !h.running.has(ctx) {
		return
	}
	// The key is nearer than the span, so Value does not reach the program's context below
	// both.
	if r, _ := ctx.Value(h).(*rpc); r != nil {
		h.handle(r, event)
	}
}

func (h *handler) handle(r *rpc, event stats.RPCStats) {
	switch event := event.(type) {
	case *stats.Begin:
		r.begun.Store(true)
	case *stats.InPayload:
		r.received.add(event.Length)
	case *stats.OutPayload:
		r.sent.add(event.Length)
	case *stats.OutHeader:
		if !h.server {
			r.keepRemote(address(event.RemoteAddr))
		}
	case *stats.OutTrailer:
		r.answered.Store(true)
		if h.server && !r.begun.Load() { // there will be no other event
			h.end(r, errUnknown)
		}
	case *stats.End:
		err := event.Error
		if err == nil && h.server && !r.answered.Load() {
			err = errUnanswered
		}
		h.end(r, err)
	}
}

var (
	// errUnknown is the only reason for which gRPC does not begin an RPC.
	errUnknown = status.Error(codes.Unimplemented, "unknown service or method")
	// errUnanswered is the error of an RPC that ended without an error although it was not
	// answered: it was canceled, or the handler did not return. gRPC does not report which, and
	// the methods of the context, which could be of any type, are not called.
	errUnanswered = status.Error(codes.Canceled, "no status was sent: the RPC was canceled, or its handler panicked")
)

// end reports the end of an RPC.
func (h *handler) end(r *rpc, err error) {
	if r.ended.Swap(true) {
		return
	}
	h.running.remove(r)
	r.span.EndFunc(func() end {
		return end{
			Method: r.method, Code: uint32(code(err)),
			Received: r.received.bytes.Load(), Sent: r.sent.bytes.Load(),
			ReceivedMessages: r.received.messages.Load(), SentMessages: r.sent.messages.Load(),
			Remote: *r.remote.Load(),
		}
	}, err)
}

// Connections are reported by package netprobe.

func (h *handler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (h *handler) HandleConn(context.Context, stats.ConnStats)                       {}
