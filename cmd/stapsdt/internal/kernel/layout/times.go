package layout

import (
	"time"

	"github.com/go-stapsdt/stapsdt/internal/clock"
)

// Clock finds the time of day of events. Its zero value is ready to use.
type Clock struct {
	boot  time.Time     // the time of day at which CLOCK_MONOTONIC began
	asked time.Duration // when boot was determined
}

const (
	clockInterval = time.Second
	clockError    = time.Millisecond
)

// At returns the time of day of a time by CLOCK_MONOTONIC. It reads both clocks again after a
// second, because the time of day can be set, and because the other clock stops while the machine
// is suspended. Smaller differences between the clocks are ignored, so that events keep their
// distances.
func (c *Clock) At(t time.Duration) time.Time {
	if c.boot.IsZero() || t-c.asked >= clockInterval {
		c.asked = clock.Now()
		c.adjust(time.Now().Round(0).Add(-c.asked))
	}
	return c.boot.Add(t)
}

func (c *Clock) adjust(boot time.Time) {
	if c.boot.IsZero() || boot.Sub(c.boot).Abs() > clockError {
		c.boot = boot
	}
}
