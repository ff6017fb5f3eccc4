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

// begin makes the copy and returns what giveBack compares it with.
func (q *request) begin(theirs *http.Request, ctx context.Context) (given http.Request) {
	q.theirs, q.mine = theirs, *theirs.WithContext(ctx)
	return q.mine
}

// requestFields returns the fields of http.Request. The unexported ones hold the context and the
// values of the path.
var requestFields = sync.OnceValue(func() []reflect.StructField {
	return reflect.VisibleFields(reflect.TypeFor[http.Request]())
})

// giveBack sets in the program's request what has been set in the copy. It writes no other field,
// because goroutines of the program may be reading the request.
func (q *request) giveBack(given *http.Request) {
	now := q.mine // read where the race detector sees it, unlike in memory
	for _, f := range requestFields() {
		if memory(&now, f) == memory(given, f) {
			continue
		}
		// SAFETY: both requests have a field of this type at the offset, and q keeps them.
		to := reflect.NewAt(f.Type, unsafe.Add(unsafe.Pointer(q.theirs), f.Offset))
		from := reflect.NewAt(f.Type, unsafe.Add(unsafe.Pointer(&q.mine), f.Offset))
		to.Elem().Set(from.Elem())
	}
}

// memory returns the memory of a field, without what it refers to. It is valid as long as r.
func memory(r *http.Request, f reflect.StructField) string {
	// SAFETY: an http.Request has a field of this size at the offset.
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(r), f.Offset)), f.Type.Size())
}

// shareTrailer lets the server's request and the copy have the trailers that the client has
// not announced: the server puts them into its own, which the copy cannot see unless both have
// the same map. Only HTTP/1 has them, after a chunked body. It precedes begin.
func shareTrailer(r *http.Request) {
	if r.ProtoMajor == 1 && r.Trailer == nil && len(r.TransferEncoding) > 0 {
		r.Trailer = http.Header{}
	}
}
