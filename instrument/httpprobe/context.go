package httpprobe

import (
	"context"
	"net/http"
	"reflect"

	"github.com/go-stapsdt/stapsdt/internal/operation"
)

// afterFuncer is an optional method of a context. If package context does not know the type
// of a context without this method, it starts a goroutine for each context below it.
type afterFuncer interface {
	AfterFunc(f func()) (stop func() bool)
}

// exchangeContext is the context of a request's Start, which has the request's header.
type exchangeContext struct {
	context.Context
	header   http.Header
	exchange *exchange
}

// Within lets package operation find the parent.
func (c *exchangeContext) Within() operation.Parent { return operation.Parent{Context: c.Context} }

// Room lets package span put the span into the exchange, which its context refers to anyway.
func (c *exchangeContext) Room() operation.Room { return operation.Room{Span: &c.exchange.span} }

func (c *exchangeContext) Value(key any) any {
	if _, ok := key.(headerKey); ok {
		return c.header
	}
	return c.Context.Value(key)
}

func (c *exchangeContext) own() *exchange { return c.exchange }

// within returns the context of the exchange's Start.
func (x *exchange) within(ctx context.Context, header http.Header) context.Context {
	c := &x.around
	*c = exchangeContext{ctx, header, x}
	if to, ok := ctx.(afterFuncer); ok {
		return struct {
			*exchangeContext
			afterFuncer
		}{c, to}
	}
	return c
}

// exchangeOf returns the exchange of these probes that a context belongs to, or nil. It calls no
// method of the program's contexts, and its search ends at such a context.
func (s *ServerProbes) exchangeOf(ctx context.Context) *exchange {
	for range operation.MaxDepth {
		if c, ok := ctx.(interface{ own() *exchange }); ok && c.own().probes == s {
			return c.own()
		}
		within, ok := operation.Within(ctx)
		if !ok {
			return nil
		}
		ctx = within
	}
	return nil
}

var valueContext = reflect.TypeOf(context.WithValue(context.Background(), headerKey{}, nil))

// failure returns the Err of a context. It returns nil for a context of the program's own
// type, whose methods must not be called.
func failure(ctx context.Context) error {
	for {
		within, ok := operation.Within(ctx)
		if !ok {
			break
		}
		if _, ours := ctx.(operation.Context); !ours && reflect.TypeOf(ctx) != valueContext {
			return ctx.Err() // it is a context of package context
		}
		ctx = within
	}
	if v := reflect.Indirect(reflect.ValueOf(ctx)); v.IsValid() && v.Type().PkgPath() == "context" {
		return ctx.Err()
	}
	return nil
}
