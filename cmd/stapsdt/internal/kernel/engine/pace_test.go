//go:build linux

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPace: scans take at most their share of a processor, and a scan for lost mappings, or one that is due, waits at most maxLostDelay.
func TestPace(t *testing.T) {
	const cost = 200 * time.Millisecond
	start := time.Now()
	now := start
	var p pace
	scan := func(used time.Duration) {
		p.spend(now, now.Add(cost), used)
		now = now.Add(cost)
	}
	spent := time.Duration(0)
	for ; now.Sub(start) < 10*time.Minute; now = now.Add(10 * time.Millisecond) {
		if p.allows(now, time.Second) {
			scan(2 * cost)
			spent += cost
		}
	}
	require.InDelta(t, (10*time.Minute).Seconds()/scanShare, spent.Seconds(), 10*cost.Seconds())

	scan(cost)
	require.False(t, p.allowsLost(now.Add(maxLostDelay-1)))
	require.True(t, p.allowsLost(now.Add(maxLostDelay)))
	require.False(t, p.allows(now.Add(maxLostDelay), 0))
	scan(cost / 100) // which takes as long on a busy machine
	require.True(t, p.allowsLost(now.Add(scanShare*cost/100)))
	require.False(t, p.allows(now.Add(time.Second-1), time.Second))
	require.True(t, p.allows(now.Add(time.Second), time.Second))

	scan(cost)
	p.want(now.Add(3 * cost))
	p.want(now.Add(2 * cost))
	p.want(now.Add(4 * cost))
	require.False(t, p.allows(now.Add(2*cost-1), 0))
	require.True(t, p.allows(now.Add(2*cost), 0))
	p.want(now.Add(cost))
	require.True(t, p.waits(now.Add(cost)))
	require.False(t, p.allows(now.Add(maxLostDelay-1), 0), "one that fails for good must not take all of the processor")
	require.True(t, p.allows(now.Add(maxLostDelay), 0))
	scan(cost)
	require.True(t, p.allows(now.Add(maxLostDelay), 0), "it was not due when the scan began")
	scan(cost)
	require.False(t, p.allows(now, 0))
}
