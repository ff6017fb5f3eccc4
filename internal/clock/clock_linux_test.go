package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNowIsMonotonicClock: a tracer that reads CLOCK_MONOTONIC has the same times.
func TestNowIsMonotonicClock(t *testing.T) {
	Now() // which may have to find the origin
	before := monotonic()
	now := Now()
	after := monotonic()
	// The origin is as exact as the quickest of ten readings.
	const exact = time.Millisecond
	require.GreaterOrEqual(t, now, before-exact)
	require.LessOrEqual(t, now, after+exact)
}
