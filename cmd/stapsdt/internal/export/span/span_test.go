//go:build linux

package span

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"

	"github.com/stretchr/testify/assert"
)

// TestOpenSpans: spans that never end leave room for those of other users.
func TestOpenSpans(t *testing.T) {
	defer func() { ownerOf = proc.OwnerOf }()
	ownerOf = func(pid int) proc.Owner { return proc.Owner{UID: uint32(pid / 100)} }
	o := newOpenSpans(NewTraces())
	for id := range uint64(query.MaxOpen) {
		o.add(spanKey{uint32(100 + id%100), id}, &openSpan{})
	}
	assert.Equal(t, query.MaxOpen/2, o.Len())
	honest := spanKey{200, 1}
	for range 3 {
		o.add(honest, &openSpan{parent: 7})
	}
	assert.Equal(t, uint64(7), o.Get(honest).parent)
	o.remove(honest)
	o.remove(honest)
	assert.Equal(t, map[proc.Owner]int{{UID: 1}: query.MaxOpen / 2, {UID: 2}: 0}, o.owned)
	for key := range o.All() {
		o.remove(key)
	}
	o.purge()
	assert.Empty(t, o.owned)
}

// TestHostileSpan: what a probe says does not make a span that a collector refuses.
func TestHostileSpan(t *testing.T) {
	o := &openSpan{trace: [16]byte{1}}
	o.join(0, 0, 5)
	assert.Equal(t, [16]byte{1}, o.trace, o)
	assert.Zero(t, o.remote, o)
	o.join(2, 3, 5)
	assert.Equal(t, [16]byte{7: 2, 15: 3}, o.trace, o)
	assert.Equal(t, uint64(5), o.remote, o)
	for nanoseconds, want := range map[uint64]time.Duration{0: 100, 40: 60, 100: 0, 101: 0, 1 << 63: 0, 1<<64 - 1: 0} {
		o.took(100, nanoseconds)
		assert.Equal(t, want, o.start, nanoseconds)
	}
}

// TestTraces: a span is in the trace of its parent, whichever rules they are of, also if the parent has ended. The IDs of other probes
// are not its parents.
func TestTraces(t *testing.T) {
	traces := NewTraces()
	one, other := newOpenSpans(traces), newOpenSpans(traces)
	start := func(o *openSpans, id, parent uint64, isSpan bool) *openSpan {
		s := &openSpan{parent: parent, isSpan: isSpan}
		s.trace, s.orphan = o.traceOf(1, parent, id)
		o.add(spanKey{1, id}, s)
		return s
	}
	root := start(&one, 1, 0, true)
	root.join(7, 8, 9)
	one.note(spanKey{1, 1}, root)
	child := start(&other, 2, 1, true)
	assert.Equal(t, root.trace, child.trace)
	other.remove(spanKey{1, 2})
	assert.Equal(t, root.trace, start(&one, 3, 2, true).trace, "its parent has ended")
	start(&other, 5, 0, false)
	assert.True(t, start(&one, 6, 5, true).orphan)
	for id := range uint64(maxEnded) {
		start(&other, 100+id, 0, true)
		other.remove(spanKey{1, 100 + id})
	}
	assert.True(t, start(&one, 7, 2, true).orphan, "it has ended long ago")
	assert.LessOrEqual(t, len(traces.of), maxEnded+4)
	merged := merge([]expose.Attribute{{Name: "name", Value: "a"}, {Name: "n", Value: 1}}, []expose.Attribute{{Name: "name", Value: "b"}})
	assert.Equal(t, []expose.Attribute{{Name: "n", Value: 1}, {Name: "name", Value: "b"}}, merged)
}
