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

// spanKey tells spans apart.
type spanKey struct {
	pid uint32
	id  uint64
}

// openSpan is the state of a span that has started.
type openSpan struct {
	start      time.Duration // CLOCK_MONOTONIC
	parent     uint64        // of the same process, or 0
	remote     uint64        // the parent that the context has
	trace      [16]byte
	attributes []expose.Attribute
}

// maxOpenSpans is how many spans are remembered. The end of one that is not has all but the
// arguments of its start.
const maxOpenSpans = 1 << 16

func (o *openSpans) add(key spanKey, span *openSpan) {
	if len(o.spans) < maxOpenSpans {
		o.spans[key] = span
	}
}

// traceOf returns the trace of a span: that of its parent, if that is known, and otherwise one of
// its own, which differs for each root, process and boot.
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

// join makes a span a part of the trace that its context has. A root's parent is the span that
// was current. A trace of zeros is none.
func (o *openSpan) join(high, low, span uint64) {
	if high|low == 0 {
		return
	}
	binary.BigEndian.PutUint64(o.trace[:8], high)
	binary.BigEndian.PutUint64(o.trace[8:], low)
	o.remote = span
}

// took sets the start of a span by the duration that its end has. It never starts after its end,
// or before the machine has.
func (o *openSpan) took(end time.Duration, nanoseconds uint64) {
	o.start = end - time.Duration(min(nanoseconds, uint64(max(end, 0))))
}

// longestSpan is the maximum time for which the start of a span is remembered.
const longestSpan = 10 * time.Minute

// sweep forgets the spans of processes that have ended, and those that take too long.
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
