//go:build linux

package span

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/operations"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/internal/clock"
)

// openSpans are the spans that have started and not ended.
type openSpans struct {
	pairing.Table[spanKey, *openSpan]
	traces *Traces
	owners map[uint32]proc.Owner // the owners of processes, by PID
	owned  map[proc.Owner]int    // the number of spans of each owner
	purged time.Time
}

func newOpenSpans(traces *Traces) openSpans {
	return openSpans{
		traces: traces,
		owners: map[uint32]proc.Owner{}, owned: map[proc.Owner]int{},
	}
}

type spanKey struct {
	pid uint32
	id  uint64
}

type openSpan struct {
	start      time.Duration // CLOCK_MONOTONIC
	parent     uint64        // the parent in the same process, or 0
	remote     uint64        // the parent in the context
	trace      [16]byte
	isSpan     bool // it is a span of package span, with an ID that is unique in its process
	orphan     bool // the trace of the parent was not known when the span started
	attributes []expose.Attribute
}

var ownerOf = proc.OwnerOf

// add adds a span, and reports whether there was room: each user of the machine may have as many
// open spans as there are free ones. Without room, the end of the span lacks only the arguments of
// its start.
func (o *openSpans) add(key spanKey, span *openSpan) bool {
	o.remove(key)
	owner, known := o.owners[key.pid]
	if !known {
		owner = ownerOf(int(key.pid))
		o.owners[key.pid] = owner
	}
	if o.owned[owner] >= query.MaxOpen-o.Len() || !o.Start(key, span) {
		return false
	}
	o.owned[owner]++
	o.note(key, span)
	return true
}

// note notes the trace of a span for its children.
func (o *openSpans) note(key spanKey, span *openSpan) {
	if span.isSpan {
		o.traces.of[key] = span.trace // the number of open spans of each rule is limited
	}
}

// remove removes a span, if it is open.
func (o *openSpans) remove(key spanKey) {
	if span := o.Get(key); span != nil {
		o.End(key)
		o.owned[o.owners[key.pid]]--
		if span.isSpan {
			o.traces.end(key)
		}
	}
}

// traceOf returns the trace of a span: the trace of its parent if that is known, or a new one that
// differs for each root, process and boot.
func (o *openSpans) traceOf(pid uint32, parent, id uint64) (trace [16]byte, orphan bool) {
	root := id
	if parent != 0 {
		if trace, known := o.traces.of[spanKey{pid, parent}]; known {
			return trace, false
		}
		root = parent
	}
	text := binary.BigEndian.AppendUint64([]byte(bootID()), uint64(pid))
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, root))
	copy(trace[:], sum[:])
	return trace, parent != 0
}

// bootID differs after each boot.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(id)
})

// join makes a span a part of the trace in its context. The parent of a root is the current span of
// the context. A trace ID of zeros means no trace.
func (o *openSpan) join(high, low, span uint64) {
	if high|low == 0 {
		return
	}
	binary.BigEndian.PutUint64(o.trace[:8], high)
	binary.BigEndian.PutUint64(o.trace[8:], low)
	o.remote, o.orphan = span, false
}

// took sets the start of a span from the duration in its end. The start is never after the end, or
// before the machine's boot.
func (o *openSpan) took(end time.Duration, nanoseconds uint64) {
	o.start = end - time.Duration(min(nanoseconds, uint64(max(end, 0))))
}

// longestSpan is the time for which the start of a span is kept.
const longestSpan = 10 * time.Minute

// purge removes the spans of processes that have ended, and spans that take too long. It reports
// whether it was time for that.
func (o *openSpans) purge() bool {
	if time.Since(o.purged) < operations.PurgeInterval {
		return false
	}
	o.purged = time.Now()
	lives, now := proc.Lives{}, clock.Now()
	for key, span := range o.All() {
		if !lives.Has(int(key.pid)) || now-span.start > longestSpan {
			o.remove(key)
		}
	}
	for pid := range o.owners {
		if !lives.Has(int(pid)) { // its spans are gone
			delete(o.owners, pid)
		}
	}
	maps.DeleteFunc(o.owned, func(_ proc.Owner, spans int) bool { return spans == 0 })
	return true
}

// Traces holds the traces of the spans of package span, for all rules: of the open spans, and of
// the spans that ended last, which can still have children.
type Traces struct {
	of    map[spanKey][16]byte
	ended [maxEnded]spanKey // a ring
	next  int
}

// maxEnded is the number of ended spans whose traces are kept.
const maxEnded = 1 << 12

// NewTraces returns Traces without spans.
func NewTraces() *Traces { return &Traces{of: map[spanKey][16]byte{}} }

// end notes that a span is no longer open.
func (t *Traces) end(key spanKey) {
	delete(t.of, t.ended[t.next])
	t.ended[t.next], t.next = key, (t.next+1)%maxEnded
}
