package debugprobe

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// maxLast is the largest number of a recorder's events that a client can ask for, unless it
// asks for all.
const maxLast = 10_000

// recorder is a *proberec.Recorder, or that of a test.
type recorder interface {
	WriteTo(w io.Writer) (int64, error)   // writes a recording, or nothing if there is none
	WriteJSON(w io.Writer) (int64, error) // writes a line for each event
}

// flight serves the events of flight recorders.
type flight struct {
	recorders []recorder
	// busy is held while a recorder is written, because that takes as much memory as the recorder.
	busy sync.Mutex
}

func (f *flight) serve(w http.ResponseWriter, r *http.Request) error {
	if len(f.recorders) == 0 {
		return &problem{Status: http.StatusNotFound, Message: "the handler has no flight recorder"}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &problem{Status: http.StatusBadRequest, Message: "the query is malformed"}
	}
	last, err := number(query, "last", 0, maxLast)
	if err != nil {
		return err
	}
	if !f.busy.TryLock() {
		return errBusy
	}
	defer f.busy.Unlock()
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Disposition", `inline; filename="probes.jsonl"`)
	if r.Method == http.MethodHead {
		return nil
	}
	out := &patientWriter{w: w, control: http.NewResponseController(w)}
	for _, recorder := range f.recorders {
		tail := &lastLines{w: out, most: last}
		if _, err := recorder.WriteJSON(tail); err != nil {
			return nil // the client is gone
		}
		if tail.flush() != nil {
			return nil
		}
	}
	return nil
}

var errBusy = &problem{Status: http.StatusServiceUnavailable, Message: "another client is reading the flight recorder"}

// recordings returns the numbers of the recorders that serveRecording serves, from 1.
func (f *flight) recordings() []int {
	numbers := make([]int, len(f.recorders))
	for i := range numbers {
		numbers[i] = i + 1
	}
	return numbers
}

// serveRecording serves a recorder's events as a file for stapsdt.
func (f *flight) serveRecording(w http.ResponseWriter, r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &problem{Status: http.StatusBadRequest, Message: "the query is malformed"}
	}
	n, err := number(query, "recorder", 1, max(len(f.recorders), 1))
	if err != nil {
		return err
	}
	if len(f.recorders) == 0 {
		return &problem{Status: http.StatusNotFound, Message: "the handler has no such recording"}
	}
	if !f.busy.TryLock() {
		return errBusy
	}
	defer f.busy.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="probes.rec"`)
	if r.Method == http.MethodHead {
		return nil
	}
	out := &patientWriter{w: w, control: http.NewResponseController(w)}
	written, err := f.recorders[n-1].WriteTo(out)
	switch {
	case written > 0:
		return nil // it is complete, or the client is gone
	case err == nil:
		err = errors.New("the recorder was never started")
	}
	w.Header().Del("Content-Disposition")
	return &problem{Status: http.StatusServiceUnavailable, Message: err.Error()}
}

// patientWriter gives the client some time for each write.
type patientWriter struct {
	w       io.Writer
	control *http.ResponseController
}

func (p *patientWriter) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(patience))
	return p.w.Write(b)
}

// lastLines writes only the last most of the lines that it receives, or all if most is 0.
type lastLines struct {
	w     io.Writer
	most  int
	lines [][]byte // a ring, once it is full
	next  int
	rest  []byte
}

func (l *lastLines) Write(b []byte) (int, error) {
	if l.most == 0 {
		return l.w.Write(b)
	}
	n := len(b)
	for {
		line, after, ended := bytes.Cut(b, []byte("\n"))
		l.rest = append(l.rest, line...)
		if !ended {
			return n, nil
		}
		l.rest = append(l.rest, '\n')
		if len(l.lines) < l.most {
			l.lines = append(l.lines, l.rest)
			l.rest = nil
		} else {
			l.lines[l.next], l.rest = l.rest, l.lines[l.next][:0]
			l.next = (l.next + 1) % l.most
		}
		b = after
	}
}

func (l *lastLines) flush() error {
	for i := range l.lines {
		if _, err := l.w.Write(l.lines[(l.next+i)%len(l.lines)]); err != nil {
			return err
		}
	}
	return nil
}
