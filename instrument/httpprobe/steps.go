package httpprobe

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/clock"
	"github.com/go-stapsdt/stapsdt/internal/operation"
)

// step is a part of a fetch: when it first began, and when it was first done.
type step struct{ from, to atomic.Int64 }

func (s *step) begin() { s.from.CompareAndSwap(0, int64(clock.Now())) }

func (s *step) done(err error) {
	if err == nil {
		s.to.CompareAndSwap(0, int64(clock.Now()))
	}
}

func (s *step) elapsed() time.Duration {
	if from, to := s.from.Load(), s.to.Load(); from != 0 && to > from {
		return time.Duration(to - from)
	}
	return 0
}

// stepContext is the context of a fetch. If the transport looks for an httptrace.ClientTrace, it
// finds one that also notes the steps. Only then is Value of the parent, which may be the
// program's, called for the program's own ClientTrace.
type stepContext struct {
	context.Context
	fetch *fetch
	once  sync.Once
	with  context.Context
}

// tracing returns the context of the fetch, whose span has ctx.
func (f *fetch) tracing(ctx context.Context) context.Context {
	t := &stepContext{Context: ctx, fetch: f}
	if to, ok := ctx.(afterFuncer); ok {
		return struct {
			*stepContext
			afterFuncer
		}{t, to}
	}
	return t
}

// Within lets package span find the parent.
func (t *stepContext) Within() operation.Parent { return operation.Parent{Context: t.Context} }

// keyOf has the key of a ClientTrace.
type keyOf struct {
	context.Context
	key any
}

func (k *keyOf) Value(key any) any {
	k.key = key
	return nil
}

var traceKey = sync.OnceValue(func() any {
	var k keyOf
	httptrace.ContextClientTrace(&k)
	return k.key
})

func (t *stepContext) Value(key any) any {
	// Package net looks for its part of the ClientTrace with a key of its own.
	if kind := reflect.TypeOf(key); kind == reflect.TypeOf(traceKey()) ||
		kind != nil && kind.PkgPath() == "internal/nettrace" {
		t.once.Do(func() { t.with = httptrace.WithClientTrace(t.Context, t.fetch.steps()) })
		return t.with.Value(key)
	}
	return t.Context.Value(key)
}

func (f *fetch) steps() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { f.dns.begin() },
		DNSDone:              func(i httptrace.DNSDoneInfo) { f.dns.done(i.Err) },
		ConnectStart:         func(_, _ string) { f.connect.begin() },
		ConnectDone:          func(_, _ string, err error) { f.connect.done(err) },
		TLSHandshakeStart:    f.tls.begin,
		TLSHandshakeDone:     func(_ tls.ConnectionState, err error) { f.tls.done(err) },
		GotConn:              func(i httptrace.GotConnInfo) { f.reused.Store(i.Reused) },
		GotFirstResponseByte: func() { f.firstByte.CompareAndSwap(0, int64(clock.Now()-f.began)) },
	}
}
