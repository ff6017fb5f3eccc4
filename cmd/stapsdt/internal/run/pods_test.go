//go:build linux

package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// busy is a Ticker that wants to be called again at once.
type busy struct{ next time.Duration }

func (busy) FDs() []int { return nil }

func (b busy) Tick() (time.Duration, bool, error) { return b.next, true, nil }

// TestPodTicker: pods are looked for once in an interval, however often events come.
func TestPodTicker(t *testing.T) {
	looks := 0
	c := &podTicker{Ticker: busy{time.Millisecond}, update: func() { looks++ }, interval: time.Hour}
	for range 100 {
		next, more, err := c.Tick()
		assert.Equal(t, time.Millisecond, next)
		assert.True(t, more)
		assert.NoError(t, err)
	}
	assert.Equal(t, 1, looks)
	c.due = time.Now()
	c.Ticker = busy{2 * time.Hour}
	next, _, _ := c.Tick()
	assert.Equal(t, time.Hour, next)
	assert.Equal(t, 2, looks)
}
