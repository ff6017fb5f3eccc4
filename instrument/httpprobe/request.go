package httpprobe

import (
	"context"
	"net/http"
	"reflect"
	"sync"
	"unsafe"
)

// request is a request while it is reported: the program's own, and the copy with the span's
// context that the next handler or transport gets.
type request struct {
	theirs *http.Request
	mine   http.Request
}

// begin makes the copy and returns what giveBack compares it with. It must be inlined, so that the
// result of WithContext is not allocated.
func (q *request) begin(theirs *http.Request, ctx context.Context) (given *http.Request) {
	given = theirs.WithContext(ctx)
	q.theirs, q.mine = theirs, *given
	return given
}

// requestField is a field of http.Request.
type requestField struct {
	offset, size uintptr
	set          func(to, from unsafe.Pointer)
}

// requestFields returns the fields of http.Request. The unexported ones hold the context and the
// values of the path.
var requestFields = sync.OnceValue(func() (all []requestField) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[http.Request]()) {
		all = append(all, requestField{f.Offset, f.Type.Size(), setter(f.Type)})
	}
	return all
})

// setter returns a function that copies a value of a type. The values that a mux sets for each
// request, which are strings, pointers, slices and maps, are copied without package reflect.
func setter(t reflect.Type) func(to, from unsafe.Pointer) {
	// SAFETY: to and from are values of type t, which has the same words as the type that is
	// copied, and pointers in the same of them.
	switch t.Kind() {
	case reflect.String:
		return func(to, from unsafe.Pointer) { *(*string)(to) = *(*string)(from) }
	case reflect.Pointer, reflect.Map:
		return func(to, from unsafe.Pointer) { *(*unsafe.Pointer)(to) = *(*unsafe.Pointer)(from) }
	case reflect.Slice:
		return func(to, from unsafe.Pointer) { *(*[]struct{})(to) = *(*[]struct{})(from) }
	}
	return func(to, from unsafe.Pointer) {
		reflect.NewAt(t, to).Elem().Set(reflect.NewAt(t, from).Elem())
	}
}

// giveBack sets in the program's request what has been set in the copy. It writes no other field,
// because goroutines of the program may be reading the request.
func (q *request) giveBack(given *http.Request) {
	now := q.mine // read where the race detector sees it, unlike in memory
	if memory(&now, 0, unsafe.Sizeof(now)) == memory(given, 0, unsafe.Sizeof(now)) {
		return
	}
	fields := requestFields()
	for i := range fields {
		f := &fields[i]
		if memory(&now, f.offset, f.size) != memory(given, f.offset, f.size) {
			// SAFETY: both requests have this field at the offset, and q keeps them.
			theirs, mine := unsafe.Pointer(q.theirs), unsafe.Pointer(&q.mine)
			f.set(unsafe.Add(theirs, f.offset), unsafe.Add(mine, f.offset))
		}
	}
}

// memory returns a part of the memory of a request, without what it refers to. It is valid as long
// as r.
func memory(r *http.Request, offset, size uintptr) string {
	// SAFETY: an http.Request has this part, which is all of it or a field.
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(r), offset)), size)
}

// shareTrailer lets the server's request and the copy have the trailers that the client has
// not announced: the server puts them into its own, which the copy cannot see unless both have
// the same map. Only HTTP/1 has them, after a chunked body. It precedes begin.
func shareTrailer(r *http.Request) {
	if r.ProtoMajor == 1 && r.Trailer == nil && len(r.TransferEncoding) > 0 {
		r.Trailer = http.Header{}
	}
}
