package httpprobe

import (
	"context"
	"reflect"

	"github.com/go-stapsdt/stapsdt/span"
)

var (
	valueContext = reflect.TypeOf(context.WithValue(context.Background(), headerKey{}, nil))
	spanPackage  = reflect.TypeFor[span.Option]().PkgPath()
)

// failure returns the Err of a context. It returns nil for a context of the program's own
// type, whose methods must not be called.
func failure(ctx context.Context) error {
	for {
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
