package httpprobe

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// recorder records the status and the number of bytes sent through a ResponseWriter, which
// may be one that several goroutines can use.
type recorder struct {
	http.ResponseWriter
	status   atomic.Int32
	bytes    atomic.Int64
	hijacked atomic.Bool
}

// WriteHeader records the first final status. Informational statuses precede it, except 101,
// which is final.
func (r *recorder) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		r.status.CompareAndSwap(0, int32(status))
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(data []byte) (int, error) {
	r.implied()
	n, err := r.ResponseWriter.Write(data)
	r.bytes.Add(int64(n))
	return n, err
}

// implied records the status of an answer without a WriteHeader.
func (r *recorder) implied() {
	if !r.hijacked.Load() {
		r.status.CompareAndSwap(0, http.StatusOK)
	}
}

// The optional methods of a ResponseWriter, each of a type of its own, for writer.
type (
	flusher      struct{ r *recorder }
	flushErrorer struct{ r *recorder }
	hijacker     struct{ r *recorder }
	readerFrom   struct{ r *recorder }
	stringWriter struct{ r *recorder }
	unwrapper    struct{ r *recorder }
)

// Unwrap is for http.ResponseController.
func (u unwrapper) Unwrap() http.ResponseWriter { return u.r.ResponseWriter }

// controls has the methods that http.ResponseController looks for and that net/http's own writers
// have.
type controls interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

// isOwn reports whether the writer may be net/http's own: it has these methods, and wraps no other
// writer.
func (r *recorder) isOwn() bool {
	if _, wraps := r.ResponseWriter.(interface{ Unwrap() http.ResponseWriter }); wraps {
		return false
	}
	_, ok := r.ResponseWriter.(controls)
	return ok
}

// The writers for those of net/http. They are one pointer, and therefore not allocated.
type (
	http1Writer struct{ ownWriter }
	http2Writer struct{ ownWriter }
	ownWriter   struct{ *recorder } // with the methods of both
)

func (w ownWriter) Flush()            { flusher{w.recorder}.Flush() }
func (w ownWriter) FlushError() error { return flushErrorer{w.recorder}.FlushError() }

func (w ownWriter) WriteString(text string) (int, error) {
	return stringWriter{w.recorder}.WriteString(text)
}

func (w ownWriter) CloseNotify() <-chan bool {
	return w.ResponseWriter.(http.CloseNotifier).CloseNotify()
}

func (w ownWriter) controls() controls                 { return w.ResponseWriter.(controls) }
func (w ownWriter) SetReadDeadline(t time.Time) error  { return w.controls().SetReadDeadline(t) }
func (w ownWriter) SetWriteDeadline(t time.Time) error { return w.controls().SetWriteDeadline(t) }
func (w ownWriter) EnableFullDuplex() error            { return w.controls().EnableFullDuplex() }

func (w http1Writer) ReadFrom(from io.Reader) (int64, error) {
	return readerFrom{w.recorder}.ReadFrom(from)
}

func (w http1Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return hijacker{w.recorder}.Hijack()
}

func (w http2Writer) Push(target string, o *http.PushOptions) error {
	return w.ResponseWriter.(http.Pusher).Push(target, o)
}

// flushError is the interface that http.ResponseController prefers to http.Flusher.
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
		h.r.hijacked.Store(true)
	}
	return conn, buffer, err
}

func (f readerFrom) ReadFrom(from io.Reader) (int64, error) {
	f.r.implied()
	n, err := f.r.ResponseWriter.(io.ReaderFrom).ReadFrom(from)
	f.r.bytes.Add(n)
	return n, err
}

func (s stringWriter) WriteString(text string) (int, error) {
	s.r.implied()
	n, err := s.r.ResponseWriter.(io.StringWriter).WriteString(text)
	s.r.bytes.Add(int64(n))
	return n, err
}

//go:generate go run writer_template.go
