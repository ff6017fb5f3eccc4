package httpprobe

import (
	"context"
	"net/http"
	"strings"
)

// request is a request while it is reported: the program's own, and the copy with the span's
// context that the next handler or transport gets.
type request struct {
	theirs *http.Request
	mine   http.Request
}

// begin makes the copy and returns the request as it was. It must be inlined, so that the result
// of WithContext is not allocated.
func (q *request) begin(theirs *http.Request, ctx context.Context) (before *http.Request) {
	before = theirs.WithContext(ctx)
	q.theirs, q.mine = theirs, *before
	return before
}

// giveBack copies to the program's request the fields that a mux has set in the copy, and the
// parsed forms, whose files the server removes. It returns the pattern. It writes no other field,
// because goroutines of the program may be reading the request. It reads no other field, and none
// twice, because goroutines that the handler has left may be writing the copy.
func (q *request) giveBack(before *http.Request) (pattern string) {
	if form := q.mine.Form; form != nil && before.Form == nil {
		q.theirs.Form = form
	}
	if form := q.mine.PostForm; form != nil && before.PostForm == nil {
		q.theirs.PostForm = form
	}
	if form := q.mine.MultipartForm; form != nil && before.MultipartForm == nil {
		q.theirs.MultipartForm = form
	}
	if pattern = q.mine.Pattern; pattern != before.Pattern {
		q.theirs.Pattern = pattern
		setPathValues(q.theirs, &q.mine, pattern)
	}
	return pattern
}

// setPathValues sets in a request the values of the wildcards in a ServeMux's pattern.
func setPathValues(to, from *http.Request, pattern string) {
	for _, rest, more := strings.Cut(pattern, "{"); more; _, rest, more = strings.Cut(rest, "{") {
		name, _, _ := strings.Cut(rest, "}")
		name = strings.TrimSuffix(name, "...")
		if value := from.PathValue(name); value != to.PathValue(name) {
			to.SetPathValue(name, value)
		}
	}
}

// shareTrailer lets the server's request and the copy have the trailers that the client has
// not announced: the server puts them into its own, which the copy cannot see unless both have
// the same map. Only HTTP/1 has them, after a chunked body. It precedes begin.
func shareTrailer(r *http.Request) {
	if r.ProtoMajor == 1 && r.Trailer == nil && len(r.TransferEncoding) > 0 {
		r.Trailer = http.Header{}
	}
}
