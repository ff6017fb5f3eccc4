package proc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestClockOffset(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "monotonic           0         0\nboottime            0         0\n": 0, "monotonic\n": 0,
		"monotonic       86400         5\nboottime           7         0\n": 24*time.Hour + 5, "monotonic          -2 500000000\n": -1500 * time.Millisecond,
	} {
		assert.Equal(t, want, clockOffset(text, "monotonic"), text)
	}
}
