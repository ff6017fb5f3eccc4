package debugprobe

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
	"weak"
)

const (
	// flushEvery is the maximum time for which an event waits before it is sent.
	flushEvery = 100 * time.Millisecond
	// statsEvery is the interval at which the counts and the histogram are sent.
	statsEvery = time.Second
	// patience is the time that a connection may take to accept data.
	patience = 5 * time.Second
)

// stream sends events to a client.
type stream struct {
	*viewer
	w       http.ResponseWriter
	control *http.ResponseController
	spare   []byte
	named   bool // whether it also has counts and histograms, by their names
	// shutdown is closed when the server shuts down.
	shutdown <-chan struct{}
}

func serveEvents(w http.ResponseWriter, r *http.Request) error {
	return serveStream(w, r, "text/event-stream", "data: ", "\n\n", true)
}

func serveLines(w http.ResponseWriter, r *http.Request) error {
	return serveStream(w, r, "application/jsonl", "", "\n", false)
}

func serveStream(
	w http.ResponseWriter, r *http.Request, contentType, before, after string, named bool,
) error {
	if err := enter(); err != nil { // before the expensive part
		return err
	}
	defer leave()
	q, err := parse(r)
	if err != nil {
		return err
	}
	if q.grouped && !named {
		return bad("value", "events.json has no histograms: use histogram.json or events")
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Accel-Buffering", "no") // for nginx
	if r.Method == http.MethodHead {
		return nil
	}
	s := &stream{
		viewer: newViewer(q, before, after), w: w, control: http.NewResponseController(w),
		named: named, shutdown: shutdownOf(r.Context()),
	}
	defer s.start()() // before the client learns that it is watching
	if err := s.control.Flush(); err != nil {
		return &problem{Status: http.StatusInternalServerError, Message: "the server cannot stream: " + err.Error()}
	}
	s.run(r.Context())
	return nil
}

// run sends until the time is over, enough was sent, or the client or the server ends it.
func (s *stream) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.seconds)
	defer cancel()
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	next := time.Now().Add(statsEvery)
	if s.named && !s.send([]byte(":\n\n"), stats{}, false, "") { // the response begins
		return
	}
	for {
		end := ""
		select {
		case <-ctx.Done():
			if ctx.Err() != context.DeadlineExceeded {
				return // the client is gone
			}
			end = "time"
		case <-s.shutdown:
			end = "shutdown"
		case <-ticker.C:
		}
		b, counts := s.take(s.spare)
		s.spare = b
		if end == "" && s.full(counts) {
			end = "events"
		}
		due := !time.Now().Before(next)
		if due {
			next = next.Add(statsEvery)
		}
		if !s.send(b, counts, due || end != "", end) || end != "" {
			return
		}
	}
}

// send sends events and, if they are due, the counts and the histogram. It reports whether the
// connection is alive.
func (s *stream) send(b []byte, counts stats, due bool, end string) bool {
	if s.named && due {
		b = s.appendNamed(b, "stats", counts)
		if s.hist != nil {
			b = s.appendNamed(b, "histogram", s.chart())
		}
	}
	if end != "" {
		last := map[string]any{"reason": end, "stats": counts}
		if s.named {
			b = s.appendNamed(b, "end", last)
		} else {
			b = fmt.Appendf(b, "%s\n", mustJSON(map[string]any{"end": last}))
		}
	}
	if len(b) == 0 {
		return true
	}
	// Without this deadline, a server with a time limit for responses would end the stream too
	// soon, and a server without one would wait for a slow client. If the server does not
	// support deadlines, this is no reason to stop.
	_ = s.control.SetWriteDeadline(time.Now().Add(patience))
	if _, err := s.w.Write(b); err != nil {
		return false
	}
	return s.control.Flush() == nil
}

func (s *stream) appendNamed(b []byte, name string, v any) []byte {
	return fmt.Appendf(b, "event: %s\ndata: %s\n\n", name, mustJSON(v))
}

// chart returns the histogram.
func (v *viewer) chart() *chart {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.probes { // the expressions are the same for all
		return v.hist.chart(w)
	}
	return nil
}

// usualHistogram is the default of the parameter seconds of histogram.json.
const usualHistogram = "10"

func serveHistogram(w http.ResponseWriter, r *http.Request) error {
	if query := r.URL.Query(); !query.Has("seconds") {
		query.Set("seconds", usualHistogram)
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
	}
	if err := enter(); err != nil {
		return err
	}
	defer leave()
	q, err := parse(r)
	if err != nil {
		return err
	}
	if !q.grouped {
		return bad("value", "the parameter value or by is missing")
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		return nil
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(q.seconds + patience))
	v := newViewer(q, "", "")
	shutdown := shutdownOf(r.Context())
	stop := v.start()
	select {
	case <-r.Context().Done():
	case <-shutdown:
	case <-time.After(q.seconds):
	}
	stop()
	c := v.chart()
	v.mu.Lock()
	counts := v.counts()
	v.mu.Unlock()
	c.Stats = &counts
	writeJSON(w, c)
	return nil
}

// shutdowns has a channel for each server, which the server's Shutdown closes. Otherwise Shutdown
// would wait for the streams.
var shutdowns = struct {
	sync.Mutex
	of map[weak.Pointer[http.Server]]chan struct{}
}{of: map[weak.Pointer[http.Server]]chan struct{}{}}

// shutdownOf returns the channel of a request's server.
func shutdownOf(ctx context.Context) <-chan struct{} {
	server, _ := ctx.Value(http.ServerContextKey).(*http.Server)
	if server == nil {
		return nil
	}
	key := weak.Make(server)
	shutdowns.Lock()
	defer shutdowns.Unlock()
	if c := shutdowns.of[key]; c != nil {
		return c
	}
	for key := range shutdowns.of {
		if key.Value() == nil {
			delete(shutdowns.of, key)
		}
	}
	c := make(chan struct{})
	shutdowns.of[key] = c
	server.RegisterOnShutdown(sync.OnceFunc(func() { close(c) }))
	return c
}
