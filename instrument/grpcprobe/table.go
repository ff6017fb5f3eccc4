package grpcprobe

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/go-stapsdt/stapsdt/span"
)

// rpcTable holds the spans of the RPCs that are reported and have not ended. It refers to none of
// them, so that an RPC whose end gRPC never reports is forgotten when it is garbage.
type rpcTable struct {
	count atomic.Int64
	ids   sync.Map // of spans; unlike a map, it shrinks
}

func (r *rpcTable) add(of *rpc) {
	id := of.span.ID()
	r.ids.Store(id, nil)
	r.count.Add(1)
	of.garbage = runtime.AddCleanup(of, r.forget, id)
}

func (r *rpcTable) remove(of *rpc) {
	of.garbage.Stop()
	r.forget(of.span.ID())
}

// forget removes an ID, if it is still there.
func (r *rpcTable) forget(id uint64) {
	if _, found := r.ids.LoadAndDelete(id); found {
		r.count.Add(-1)
	}
}

// has reports whether a context belongs to an RPC in it. It does not look up the handler's key
// in the context, because the context of an RPC that is not reported would call the program's
// context.
func (r *rpcTable) has(ctx context.Context) bool { return r.count.Load() != 0 && r.holds(ctx) }

// holds is a function of its own so that has is inlined.
func (r *rpcTable) holds(ctx context.Context) bool {
	_, found := r.ids.Load(span.ID(ctx))
	return found
}
