// Package operation has the code that package span and the packages in instrument/ share: the
// contexts of operations, their trace contexts, and the texts of their errors. The only method
// of the program's values that it calls is Error.
package operation

import (
	"context"
	"reflect"
	"sync"
	"time"
	"unsafe"
)

// MaxDepth is the maximum number of contexts that are searched: a context is a list, and a program
// can make it arbitrarily long.
const MaxDepth = 256

// Parent is the context that another context is derived from.
type Parent struct{ Context context.Context }

// Context is a context of this module. No other module can have one, because it cannot name the
// type Parent.
type Context interface {
	context.Context
	Within() Parent
}

// Room is memory for a span: a pointer to it, which is zero.
type Room struct{ Span any }

// Roomy is a context of this module that has room for the one span that starts with it.
type Roomy interface{ Room() Room }

// Within returns the context that ctx is derived from. ok is false if there is none, or if the type
// of ctx is neither from this module nor from package context, because the program's methods must
// not be called.
func Within(ctx context.Context) (parent context.Context, ok bool) {
	t, types := typeOf(ctx), derived()
	for i := range types {
		if types[i].t == t {
			// SAFETY: the second word of an interface is the address of a value of type t, or,
			// for a pointer, the pointer. Either way it is the address of a struct that has a
			// context.Context at this offset, which package context does not change once it has
			// returned the context. ctx keeps the struct alive.
			data := (*[2]unsafe.Pointer)(unsafe.Pointer(&ctx))[1]
			return *(*context.Context)(unsafe.Add(data, types[i].offset)), true
		}
	}
	if ours, ok := ctx.(Context); ok {
		return ours.Within().Context, true
	}
	return nil, false
}

// place is the place of the parent in a type of package context, t.
type place struct {
	t      unsafe.Pointer // see typeOf
	offset uintptr
}

// typeOf returns the address of the type of v, which takes less time to compare than a
// reflect.Type.
func typeOf(v any) unsafe.Pointer {
	// SAFETY: the first word of an interface without methods is the address of its type, or nil.
	// Types are equal if their addresses are, as for package reflect.
	return (*[2]unsafe.Pointer)(unsafe.Pointer(&v))[0]
}

// derived returns the types of package context that have a parent. Their fields are found by
// name and type. A type without such a field is missing.
var derived = sync.OnceValue(func() (list []place) {
	background := context.Background()
	canceled, cancel := context.WithCancel(background)
	defer cancel()
	timed, cancelTimed := context.WithDeadline(background, time.Time{}) // it makes no timer
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
				list = append(list, place{typeOf(reflect.Zero(c.t).Interface()), at})
			}
		}
	}
	return list
})

// offset returns the offset of a field. The field may be in an embedded struct, but not in a
// struct that is embedded by a pointer.
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
		if f := v.Elem().FieldByName("Context"); f.IsValid() && f.Kind() == reflect.Interface &&
			!f.IsNil() {
			return f.Elem().Type()
		}
	}
	return nil
}

// stoppable is a context that package context wraps in a context of its own.
type stoppable struct {
	context.Context
	done chan struct{}
}

func (c stoppable) Done() <-chan struct{} { return c.done }

func (c stoppable) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }
