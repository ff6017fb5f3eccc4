package debugprobe

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventjson"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// maxPending is the largest size of the events that wait for a viewer's connection. A viewer
// has two buffers of this size.
const maxPending = 256 << 10

// maxText is the largest number of bytes of a string that is shown. Longer ones are cut, and
// end in "…".
const maxText = 1024

// viewers counts the streams and histograms that are being served, by all handlers of the
// process.
var viewers atomic.Int32

// enter counts a viewer, if there may be one more.
func enter() error {
	if viewers.Add(1) > maxViewers {
		viewers.Add(-1)
		return &problem{Status: http.StatusServiceUnavailable, Message: "too many viewers are watching this program"}
	}
	return nil
}

func leave() { viewers.Add(-1) }

// viewer receives events in the goroutines that fire them, and keeps the events that fit in
// its buffers until another goroutine takes them. Neither waits for the other, except for the
// lock, which is held only briefly.
type viewer struct {
	*request
	before, after string // the text around an event in pending; without after, no events are kept
	faults        atomic.Uint64

	mu      sync.Mutex
	pending []byte
	stats   stats
	bucket  tokens
	hist    *histogram
	enc     *eventjson.Encoder
}

// stats counts the events that a viewer has met.
type stats struct {
	Matched uint64 `json:"matched"` // events that the filter accepts
	Sent    uint64 `json:"sent"`
	Dropped uint64 `json:"dropped"` // events that exceeded the rate, or did not fit
	Faults  uint64 `json:"faults"`  // events for which an expression has no value
}

// tokens limits a rate. A burst may have as many events as a second.
type tokens struct {
	rate float64
	left float64
	last time.Duration
}

func (t *tokens) take(now time.Duration) bool {
	if now > t.last {
		t.left = min(t.rate, t.left+t.rate*(now-t.last).Seconds())
		t.last = now
	}
	if t.left < 1 {
		return false
	}
	t.left--
	return true
}

func newViewer(q *request, before, after string) *viewer {
	v := &viewer{
		request: q, before: before, after: after, enc: eventjson.NewEncoder(),
		bucket: tokens{rate: float64(q.rate), left: float64(q.rate)},
	}
	if q.grouped {
		v.hist = newHistogram()
	}
	return v
}

// start begins to observe. stop ends the observation.
func (v *viewer) start() (stop func()) {
	providers := map[*stapsdt.Provider][]*stapsdt.Probe{}
	for probe := range v.probes {
		providers[probe.Provider()] = append(providers[probe.Provider()], probe)
	}
	var stops []func()
	for p, probes := range providers {
		stops = append(stops, p.Observe(v.observe, probes...))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// observe is called when a probe fires.
func (v *viewer) observe(e *stapsdt.Event) {
	w := v.probes[e.Probe()]
	if w == nil {
		return
	}
	get := func(i int) expr.Value { return w.get(e, i) }
	if w.filter != nil {
		match, fault := w.filter.Bool(get)
		if fault {
			v.faults.Add(1)
		}
		if !match {
			return
		}
	}
	var value, by expr.Value
	var noValue, noGroup bool
	if w.value != nil {
		value, noValue = w.value.Eval(get)
	}
	if w.by != nil {
		by, noGroup = w.by.Eval(get)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stats.Matched++
	if v.hist != nil && (noValue || noGroup || !v.hist.add(w, value, by)) {
		v.faults.Add(1)
	}
	if v.after != "" {
		v.keep(e)
	}
}

// keep adds an event to pending. The lock is held.
func (v *viewer) keep(e *stapsdt.Event) {
	if v.most > 0 && v.stats.Sent >= uint64(v.most) {
		return
	}
	if !v.bucket.take(e.Time()) {
		v.stats.Dropped++
		return
	}
	size := len(v.pending)
	b := append(v.pending, v.before...)
	b = v.enc.Append(b, e, maxText)
	b = append(b, v.after...)
	if len(b) > maxPending {
		v.pending = b[:size]
		v.stats.Dropped++
		return
	}
	v.pending = b
	v.stats.Sent++
}

// take returns the events that wait to be sent, and the counts. It keeps spare for the next events.
func (v *viewer) take(spare []byte) ([]byte, stats) {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := v.pending
	v.pending = spare[:0]
	return b, v.counts()
}

// counts returns the counts. The lock is held.
func (v *viewer) counts() stats {
	s := v.stats
	s.Faults = v.faults.Load()
	return s
}

// full reports whether the number of events that the viewer has requested was sent.
func (v *viewer) full(s stats) bool { return v.most > 0 && s.Sent >= uint64(v.most) }
