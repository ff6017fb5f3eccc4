//go:build linux

package span

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"

	"github.com/stretchr/testify/assert"
)

// TestOpenSpans: spans that never end leave room for those of other users.
func TestOpenSpans(t *testing.T) {
	defer func() { ownerOf = target.OwnerOf }()
	ownerOf = func(pid int) any { return pid / 100 }
	o := newOpenSpans()
	for id := range uint64(maxOpenSpans) {
		o.add(spanKey{uint32(100 + id%100), id}, &openSpan{})
	}
	assert.Len(t, o.spans, maxOpenSpans/2)
	honest := spanKey{200, 1}
	for range 3 {
		o.add(honest, &openSpan{parent: 7})
	}
	assert.Equal(t, uint64(7), o.spans[honest].parent)
	o.remove(honest)
	o.remove(honest)
	assert.Equal(t, map[any]int{1: maxOpenSpans / 2, 2: 0}, o.owned)
	for key := range o.spans {
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
