//go:build linux

package span

import (
	"testing"
	"time"
)

// TestHostileSpan: what a probe says does not make a span that a collector refuses.
func TestHostileSpan(t *testing.T) {
	o := &openSpan{trace: [16]byte{1}}
	if o.join(0, 0, 5); o.trace != [16]byte{1} || o.remote != 0 {
		t.Errorf("%+v", o)
	}
	if o.join(2, 3, 5); o.trace != [16]byte{7: 2, 15: 3} || o.remote != 5 {
		t.Errorf("%+v", o)
	}
	for nanoseconds, want := range map[uint64]time.Duration{0: 100, 40: 60, 100: 0, 101: 0, 1 << 63: 0, 1<<64 - 1: 0} {
		if o.took(100, nanoseconds); o.start != want {
			t.Errorf("%d: %v", nanoseconds, o.start)
		}
	}
}
