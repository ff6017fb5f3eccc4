package layout

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/clock"

	"github.com/stretchr/testify/assert"
)

// TestClock: events keep their distances while the clocks drift, and have the new time of day after it was set, or after a suspension.
func TestClock(t *testing.T) {
	boot := time.Unix(1_000_000, 0)
	var c Clock
	c.adjust(boot)
	c.asked = time.Hour
	assert.Equal(t, boot.Add(time.Hour), c.At(time.Hour))
	c.adjust(boot.Add(clockError))
	assert.Equal(t, boot.Add(time.Hour), c.At(time.Hour))
	c.adjust(boot.Add(8 * time.Hour))
	assert.Equal(t, boot.Add(9*time.Hour), c.At(time.Hour))
	c.adjust(boot.Add(-time.Minute))
	assert.Equal(t, boot.Add(59*time.Minute), c.At(time.Hour))

	c.asked = 0
	now := clock.Now()
	assert.WithinDuration(t, time.Now(), c.At(max(now, clockInterval)), time.Minute, "it does not ask again")
}
