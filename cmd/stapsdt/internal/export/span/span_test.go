//go:build linux

package span

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

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
