package httpprobe

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// recorder records the status and the number of bytes sent through a ResponseWriter.
type recorder struct {
	http.ResponseWriter
	status   int
	bytes    int64
	hijacked bool
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader records the first final status. Informational statuses precede it, except 101,
// which is final.
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

// implied records the status of an answer without a WriteHeader.
func (r *recorder) implied() {
	if r.status == 0 && !r.hijacked {
		r.status = http.StatusOK
	}
}

// The optional methods of a ResponseWriter, each of a type of its own, for writer.
type (
	flusher      struct{ r *recorder }
	flushErrorer struct{ r *recorder }
	hijacker     struct{ r *recorder }
	readerFrom   struct{ r *recorder }
	stringWriter struct{ r *recorder }
)

// flushError is what http.ResponseController calls in place of http.Flusher.
type flushError interface{ FlushError() error }

func (f flusher) Flush() {
	f.r.implied()
	f.r.ResponseWriter.(http.Flusher).Flush()
}

func (f flushErrorer) FlushError() error {
	f.r.implied()
	return f.r.ResponseWriter.(flushError).FlushError()
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := h.r.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		h.r.hijacked = true
	}
	return conn, buffer, err
}

func (f readerFrom) ReadFrom(from io.Reader) (int64, error) {
	f.r.implied()
	n, err := f.r.ResponseWriter.(io.ReaderFrom).ReadFrom(from)
	f.r.bytes += n
	return n, err
}

func (s stringWriter) WriteString(text string) (int, error) {
	s.r.implied()
	n, err := s.r.ResponseWriter.(io.StringWriter).WriteString(text)
	s.r.bytes += int64(n)
	return n, err
}

//go:generate go run writer_template.go
