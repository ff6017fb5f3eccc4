package span

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/operation"
)

// maxDepth is the largest number of scopes in a context, and of contexts that are searched for the
// nearest scope: a context is a list, which a program can make as long as it likes.
// [context.Context.Value] walks through the types of package context in a loop, but calls itself
// at each scope.
const maxDepth = 256

// unnested counts the spans whose context is that of Start.
var unnested atomic.Uint64

// Unnested returns the number of spans in this process that were reported without a context of
// their own, because 256 others were in it, or because it had 256 parents and no span among
// them. Start returned the context that it was called with. Spans that start with that have the
// span of that context as their parent, or none.
func Unnested() uint64 { return unnested.Load() }

// ID returns the id of the span that a context belongs to, or 0 if there is none that is
// reported. It is the first argument of the span's probes.
//
// ID calls no method of the context, which could lock, block or panic: it knows the types of
// package context, and finds nothing beyond a context of another type.
func ID(ctx context.Context) uint64 {
	if s, _ := nearest(ctx); s != nil {
		return s.id
	}
	return 0
}

// scope is the context of a span.
type scope struct {
	context.Context
	id    uint64
	depth uint32 // the number of scopes in the list, with this one
}

func (c *scope) String() string { return fmt.Sprintf("%v.Span(%d)", c.Context, c.id) }

// scopeOfAfterFuncer is a scope in a context that has a method AfterFunc. Package context starts
// a goroutine for each context below one without it, if it does not know the context's type.
type scopeOfAfterFuncer scope

type afterFuncer interface {
	AfterFunc(f func()) (stop func() bool)
}

func (c *scopeOfAfterFuncer) AfterFunc(f func()) (stop func() bool) {
	return c.Context.(afterFuncer).AfterFunc(f)
}

func (c *scopeOfAfterFuncer) String() string { return (*scope)(c).String() }

// of returns the scope that a context is, or nil.
func of(ctx context.Context) *scope {
	switch c := ctx.(type) {
	case *scope:
		return c
	case *scopeOfAfterFuncer:
		return (*scope)(c)
	}
	return nil
}

// derive makes c the scope of a span that starts in ctx, whose nearest scope is within, and
// returns the span's context. A scope has nothing that one directly in it lacks, except for the id.
func (c *scope) derive(ctx context.Context, within *scope, found bool) context.Context {
	c.depth = 1
	if direct := of(ctx); direct != nil {
		c.Context, c.depth = direct.Context, direct.depth
	} else {
		c.Context = ctx
		if within != nil {
			c.depth = within.depth + 1
		}
	}
	if !found || c.depth > maxDepth {
		c.Context = nil
		unnested.Add(1)
		return ctx
	}
	if _, ok := c.Context.(afterFuncer); ok {
		return (*scopeOfAfterFuncer)(c)
	}
	return c
}

// nearest returns the scope that a context belongs to, or nil. found is false if the search
// ended before the list did. A context whose type is the program's own ends the list.
func nearest(ctx context.Context) (s *scope, found bool) {
	types := parents()
	for range maxDepth {
		if s := of(ctx); s != nil {
			return s, true
		}
		if ours, ok := ctx.(operation.Context); ok {
			ctx = ours.Within().Context
			continue
		}
		t, field := reflect.TypeOf(ctx), -1
		for i := range types {
			if types[i].t == t {
				field = int(types[i].offset)
			}
		}
		if field < 0 {
			return nil, true
		}
		// SAFETY: the second word of an interface is the address of a value of type t, or,
		// for a pointer, the pointer. Either way it is that of a struct that has a
		// context.Context at this offset, which package context does not change once it has
		// returned the context. ctx keeps the struct alive.
		data := (*[2]unsafe.Pointer)(unsafe.Pointer(&ctx))[1]
		ctx = *(*context.Context)(unsafe.Add(data, field))
	}
	return nil, false
}

// parent is where a type of package context, t, has its parent.
type parent struct {
	t      reflect.Type
	offset uintptr
}

// parents returns the types of package context that have a parent. Their fields are found by
// name and type. A type without such a field is missing.
var parents = sync.OnceValue(func() (list []parent) {
	background := context.Background()
	canceled, cancel := context.WithCancel(background)
	defer cancel()
	timed, cancelTimed := context.WithDeadline(background, time.Time{}) // which makes no timer
	defer cancelTimed()
	stopping, cancelStopping := context.WithCancel(stoppable{background, make(chan struct{})})
	defer cancelStopping()
	for _, c := range []struct {
		t     reflect.Type
		field string
	}{
		{reflect.TypeOf(context.WithValue(background, stoppable{}, 0)), "Context"},
		{reflect.TypeOf(canceled), "Context"},
		{reflect.TypeOf(timed), "Context"},
		{reflect.TypeOf(context.WithoutCancel(background)), "c"},
		{inner(stopping), "Context"},
	} {
		if c.t == nil {
			continue
		}
		of := c.t
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of.Size() <= unsafe.Sizeof(uintptr(0)) {
			continue // an interface would hold it without a pointer
		}
		if f, ok := of.FieldByName(c.field); ok && f.Type == reflect.TypeFor[context.Context]() {
			if at, ok := offset(of, f.Index); ok {
				list = append(list, parent{c.t, at})
			}
		}
	}
	return list
})

// offset returns the offset of a field that may be one of an embedded struct, but not of one
// that is embedded by a pointer.
func offset(t reflect.Type, index []int) (sum uintptr, ok bool) {
	for _, i := range index {
		if t.Kind() != reflect.Struct {
			return 0, false
		}
		f := t.Field(i)
		sum, t = sum+f.Offset, f.Type
	}
	return sum, true
}

// inner returns the type of the context that a context of package context has as its parent.
func inner(ctx context.Context) reflect.Type {
	if v := reflect.ValueOf(ctx); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		if f := v.Elem().FieldByName("Context"); f.IsValid() && f.Kind() == reflect.Interface && !f.IsNil() {
			return f.Elem().Type()
		}
	}
	return nil
}

// stoppable is a context in front of which package context puts one of its own.
type stoppable struct {
	context.Context
	done chan struct{}
}

func (c stoppable) Done() <-chan struct{} { return c.done }

func (c stoppable) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }
