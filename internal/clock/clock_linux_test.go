package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNowIsMonotonicClock: a tracer that reads CLOCK_MONOTONIC has the same times.
func TestNowIsMonotonicClock(t *testing.T) {
	require.Eventually(t, func() bool {
		before := monotonic()
		now := Now()
		after := monotonic()
		const exact = time.Microsecond
		return before-exact <= now && now <= after+exact && after-before < 100*time.Microsecond
	}, 10*time.Second, time.Millisecond)
}
