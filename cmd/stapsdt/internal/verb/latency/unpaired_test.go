package latency

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"

	"github.com/stretchr/testify/require"
)

// TestOldest: operations that are known to be open are shown before those that may have ended,
// however old these are.
func TestOldest(t *testing.T) {
	known, lost := &replay.File{}, &replay.File{}
	lost.Missed(time.Hour)
	var u unpaired
	for i := range time.Duration(2 * maxOpenShown) {
		u.add(&pairing.Operation{File: lost, Since: 1 + i})
	}
	for i := range time.Duration(3) {
		u.add(&pairing.Operation{File: known, Since: 100 + i})
	}
	require.Equal(t, []int{3, 2 * maxOpenShown}, []int{u.open, u.unknown})
	var since []time.Duration
	for _, o := range u.oldest {
		since = append(since, o.Since)
	}
	require.Equal(t, []time.Duration{100, 101, 102, 1, 2, 3, 4, 5, 6, 7}, since)
}
