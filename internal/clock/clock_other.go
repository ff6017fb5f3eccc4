//go:build !linux

package clock

import "time"

// monotonic returns the arbitrary origin of the clock.
func monotonic() time.Duration { return 0 }
