package httpprobe

import (
	"context"
	"net/http"
	"reflect"

	"github.com/go-stapsdt/stapsdt/internal/operation"
	"github.com/go-stapsdt/stapsdt/span"
)

// afterFuncer is an optional method of a context. Package context starts a goroutine for each
// context below one without it, if it does not know the context's type.
type afterFuncer interface {
	AfterFunc(f func()) (stop func() bool)
}

// headerContext is the context of a request's Start, which has the request's header.
type headerContext struct {
	context.Context
	header http.Header
}

// Within lets package span look through it.
func (h *headerContext) Within() operation.Parent { return operation.Parent{Context: h.Context} }

func (h *headerContext) Value(key any) any {
	if _, ok := key.(headerKey); ok {
		return h.header
	}
	return h.Context.Value(key)
}

func withHeader(ctx context.Context, header http.Header) context.Context {
	h := &headerContext{ctx, header}
	if to, ok := ctx.(afterFuncer); ok {
		return struct {
			*headerContext
			afterFuncer
		}{h, to}
	}
	return h
}

var (
	valueContext = reflect.TypeOf(context.WithValue(context.Background(), headerKey{}, nil))
	spanPackage  = reflect.TypeFor[span.Option]().PkgPath()
)

// failure returns the Err of a context. It returns nil for a context of the program's own
// type, whose methods must not be called.
func failure(ctx context.Context) error {
	for {
		if ours, ok := ctx.(operation.Context); ok {
			ctx = ours.Within().Context
			continue
		}
		v := reflect.Indirect(reflect.ValueOf(ctx))
		switch t := reflect.TypeOf(ctx); {
		case t == valueContext || v.IsValid() && v.Type().PkgPath() == spanPackage:
			ctx = v.FieldByName("Context").Interface().(context.Context)
		case v.IsValid() && v.Type().PkgPath() == "context":
			return ctx.Err()
		default:
			return nil
		}
	}
}
