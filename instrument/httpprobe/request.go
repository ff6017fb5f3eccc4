package httpprobe

import (
	"context"
	"net/http"
	"reflect"
	"sync"
	"unsafe"
)

// request is a request while it is reported: the program's own, and the copy with the span's
// context that the next handler or transport gets. What that sets in its copy is set in the
// program's too, as if there were only one.
//
// Fields are exchanged when others can look, and only those that have changed. Meanwhile
// goroutines of the program may use both requests in ways that are correct while nothing
// traces: middleware may read its request in a goroutine, and a goroutine that a handler has
// left may set fields that no other code reads. The functions that exchange fields are therefore
// hidden from the race detector, and move values without following their pointers. A value
// that is being written arrives where it would be written without us.
type request struct {
	theirs *http.Request
	mine   http.Request
	given  http.Request // mine, when fields were exchanged last
	late   http.Header  // see shareTrailer
}

// field is a field of http.Request.
type field struct {
	offset, size uintptr
	kind         reflect.Kind
}

// layout is the layout of http.Request. The unexported fields of http.Request hold the values of the path, and its
// context.
type layout struct {
	fields  []field
	context []field // what WithContext sets
}

var requestLayout = sync.OnceValue(func() (l layout) {
	var zero http.Request
	set := zero.WithContext(context.Background())
	t := reflect.TypeFor[http.Request]()
	for i := range t.NumField() {
		f := field{t.Field(i).Offset, t.Field(i).Type.Size(), t.Field(i).Type.Kind()}
		l.fields = append(l.fields, f)
		if !f.equal(&zero, set) {
			l.context = append(l.context, f)
		}
	}
	return l
})

// set copies the field from one request to another.
//
//go:norace
func (f field) set(into, of *http.Request) {
	// SAFETY: an http.Request has a field of this kind and size at the offset. Pointers are
	// copied as such, so that the garbage collector sees them. An interface is two pointers.
	to, from := unsafe.Add(unsafe.Pointer(into), f.offset), unsafe.Add(unsafe.Pointer(of), f.offset)
	switch f.kind {
	case reflect.String:
		*(*string)(to) = *(*string)(from)
	case reflect.Slice:
		*(*[]byte)(to) = *(*[]byte)(from)
	case reflect.Interface:
		*(*[2]unsafe.Pointer)(to) = *(*[2]unsafe.Pointer)(from)
	case reflect.Map, reflect.Pointer, reflect.Chan, reflect.Func:
		*(*unsafe.Pointer)(to) = *(*unsafe.Pointer)(from)
	default: // a number or a bool
		for i := range f.size { // the detector sees through copy
			*(*byte)(unsafe.Add(to, i)) = *(*byte)(unsafe.Add(from, i))
		}
	}
}

// equal reports whether the field is the same in both requests.
//
//go:norace
func (f field) equal(a, b *http.Request) bool {
	// SAFETY: an http.Request has a field of this size at the offset. The strings are not used
	// after the comparison.
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(a), f.offset)), f.size) ==
		unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(b), f.offset)), f.size)
}

// begin makes the copy, with the span's context.
//
//go:norace
func (q *request) begin(theirs *http.Request, ctx context.Context) {
	var zero http.Request
	set := zero.WithContext(ctx)
	q.theirs, q.mine = theirs, *theirs
	for _, f := range requestLayout().context {
		f.set(&q.mine, set)
	}
	q.given = q.mine
}

// giveBack sets in the program's request what has been set in the copy.
//
//go:norace
func (q *request) giveBack() {
	if whole := (field{size: unsafe.Sizeof(q.mine)}); whole.equal(&q.mine, &q.given) {
		return
	}
	for _, f := range requestLayout().fields {
		if !f.equal(&q.mine, &q.given) {
			f.set(&q.given, &q.mine)
			f.set(q.theirs, &q.given)
		}
	}
}

// patternField is http.Request.Pattern.
var patternField = field{unsafe.Offsetof(http.Request{}.Pattern), unsafe.Sizeof(""), reflect.String}

// pattern returns the pattern that matched the request when fields were exchanged last, or ""
// if it is being written.
//
//go:norace
func (q *request) pattern() string {
	if !patternField.equal(&q.given, &q.mine) {
		return ""
	}
	return q.given.Pattern
}

// patternOf returns the pattern that matched a request of the program's, or "" if it is being written.
//
//go:norace
func patternOf(r *http.Request) string {
	var q request
	patternField.set(&q.given, r)
	patternField.set(&q.mine, r)
	return q.pattern()
}

// shareTrailer lets the server's request and the copy have the trailers that the client has
// not announced: the server puts them into its own, which the copy cannot see unless both have
// the same map. Only HTTP/1 has them, after a chunked body. It comes before begin.
//
//go:norace
func (q *request) shareTrailer(theirs *http.Request) {
	if theirs.ProtoMajor == 1 && theirs.Trailer == nil && len(theirs.TransferEncoding) > 0 {
		q.late = http.Header{}
		theirs.Trailer = q.late
	}
}

// unshareTrailer removes the map that shareTrailer made, if it is still there and empty.
//
//go:norace
func (q *request) unshareTrailer() {
	// SAFETY: maps are pointers, which are only compared.
	there, made := *(*unsafe.Pointer)(unsafe.Pointer(&q.theirs.Trailer)), *(*unsafe.Pointer)(unsafe.Pointer(&q.late))
	if made != nil && there == made && len(q.late) == 0 {
		q.theirs.Trailer = nil
	}
}
