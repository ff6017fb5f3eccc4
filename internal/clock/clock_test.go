package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestBubble: a bubble has a time of its own, whether the process has its origin before it or
// not, and does not spoil the process's.
func TestBubble(t *testing.T) {
	for _, first := range []bool{true, false} {
		process.Store(nil)
		if first {
			Now()
		}
		synctest.Test(t, func(t *testing.T) {
			at := Now()
			time.Sleep(time.Hour)
			require.Equal(t, time.Hour, Now()-at)
			require.Equal(t, time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC).UnixNano(), Now().Nanoseconds())
		})
		before := Now()
		time.Sleep(time.Millisecond)
		require.Less(t, Now()-before, testenv.Patience, "the time of the bubble")
	}
}
