//go:build linux

package span

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/operations"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
)

// openSpans are the spans that have started and not ended.
type openSpans struct {
	spans  map[spanKey]*openSpan
	purged time.Time
}

// spanKey identifies a span.
type spanKey struct {
	pid uint32
	id  uint64
}

// openSpan is the state of a span that has started.
type openSpan struct {
	start      time.Duration // CLOCK_MONOTONIC
	parent     uint64        // the parent in the same process, or 0
	remote     uint64        // the parent in the context
	trace      [16]byte
	attributes []expose.Attribute
}

// maxOpenSpans is the maximum number of open spans that are kept. The end of any other span lacks only the arguments of
// its start.
const maxOpenSpans = 1 << 16

func (o *openSpans) add(key spanKey, span *openSpan) {
	if len(o.spans) < maxOpenSpans {
		o.spans[key] = span
	}
}

// traceOf returns the trace of a span: the trace of its parent if that is known, or a new one that differs for each
// root, process and boot.
func (o *openSpans) traceOf(pid uint32, parent, id uint64) (trace [16]byte) {
	root := id
	if parent != 0 {
		if p := o.spans[spanKey{pid, parent}]; p != nil {
			return p.trace
		}
		root = parent
	}
	text := binary.BigEndian.AppendUint64([]byte(bootID()), uint64(pid))
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, root))
	copy(trace[:], sum[:])
	return trace
}

// bootID differs after each boot.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(id)
})

// join makes a span a part of the trace in its context. The parent of a root is the current span of the context. A
// trace ID of zeros means no trace.
func (o *openSpan) join(high, low, span uint64) {
	if high|low == 0 {
		return
	}
	binary.BigEndian.PutUint64(o.trace[:8], high)
	binary.BigEndian.PutUint64(o.trace[8:], low)
	o.remote = span
}

// took sets the start of a span from the duration in its end. The start is never after the end, or before the machine's
// boot.
func (o *openSpan) took(end time.Duration, nanoseconds uint64) {
	o.start = end - time.Duration(min(nanoseconds, uint64(max(end, 0))))
}

// longestSpan is how long the start of a span is kept.
const longestSpan = 10 * time.Minute

// sweep drops the spans of processes that have ended, and spans that take too long.
func (o *openSpans) sweep() {
	if time.Since(o.purged) < operations.PurgeInterval {
		return
	}
	o.purged = time.Now()
	lives, now := probes.Lives{}, event.Now()
	for key, span := range o.spans {
		if !lives.Has(int(key.pid)) || now-span.start > longestSpan {
			delete(o.spans, key)
		}
	}
}
