package httpprobe

import (
	"io"
	"net/http"
)

// recorder notes what is sent through a ResponseWriter.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// writer returns what a handler gets. It can what the ResponseWriter can, for a handler
// that asks: its answer must not depend on whether somebody traces. (The rest is
// found with http.NewResponseController, by way of Unwrap.)
func (r *recorder) writer() http.ResponseWriter {
	flusher, flushes := r.ResponseWriter.(http.Flusher)
	hijacker, hijacks := r.ResponseWriter.(http.Hijacker)
	switch {
	case flushes && hijacks:
		return struct {
			*recorder
			http.Flusher
			http.Hijacker
		}{r, flusher, hijacker}
	case flushes:
		return struct {
			*recorder
			http.Flusher
		}{r, flusher}
	case hijacks:
		return struct {
			*recorder
			http.Hijacker
		}{r, hijacker}
	}
	return r
}

// WriteHeader notes the first final status. Informational ones precede it, but for
// 101, after which no other comes.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(data []byte) (int, error) {
	r.implied()
	n, err := r.ResponseWriter.Write(data)
	r.bytes += int64(n)
	return n, err
}

// ReadFrom lets net/http send a file by sendfile, as it does without the recorder.
func (r *recorder) ReadFrom(from io.Reader) (int64, error) {
	r.implied()
	n, err := io.Copy(r.ResponseWriter, from)
	r.bytes += n
	return n, err
}

// implied notes the status that a Write without a WriteHeader has.
func (r *recorder) implied() {
	if r.status == 0 {
		r.status = http.StatusOK
	}
}
