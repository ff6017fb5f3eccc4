//go:build linux

package span

// Traces has the traces of the spans of package span, whichever rule exports them: of the open spans, and of the last that have
// ended, which can still have children.
type Traces struct {
	of    map[spanKey][16]byte
	ended [maxEnded]spanKey // a ring
	next  int
}

// maxEnded is the number of ended spans whose traces are kept.
const maxEnded = 1 << 12

// NewTraces returns Traces without spans.
func NewTraces() *Traces { return &Traces{of: map[spanKey][16]byte{}} }

// set notes the trace of an open span, of which each rule has a limited number.
func (t *Traces) set(key spanKey, trace [16]byte) { t.of[key] = trace }

// end notes that a span is not open any longer.
func (t *Traces) end(key spanKey) {
	delete(t.of, t.ended[t.next])
	t.ended[t.next], t.next = key, (t.next+1)%maxEnded
}
