//go:build linux

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestScanBudget: scans take no more than their share, those for what was lost do not wait for
// long, and leave no debt.
func TestScanBudget(t *testing.T) {
	const cost = 200 * time.Millisecond
	start := time.Now()
	now := start
	var b budget
	scan := func() {
		b.spend(now, now.Add(cost), 2*cost)
		now = now.Add(cost)
	}
	require.True(t, b.affords(now))
	spent := time.Duration(0)
	for now.Sub(start) < 10*time.Minute {
		if b.affords(now) {
			scan()
			spent += cost
		}
		now = now.Add(10 * time.Millisecond)
	}
	require.InDelta(t, (10*time.Minute+scanSavings).Seconds()/scanShare, spent.Seconds(), 2*cost.Seconds())

	for range 100 {
		scan()
		require.False(t, b.affordsLost(now.Add(maxLostDelay-time.Millisecond)))
		now = now.Add(maxLostDelay)
		require.True(t, b.affordsLost(now))
	}
	require.False(t, b.affords(now))
	require.True(t, b.affords(now.Add(scanShare*cost)))

	// On a busy machine, a scan takes longer than it uses the processor.
	b = budget{}
	b.spend(now, now.Add(10*time.Second), cost)
	now = now.Add(10 * time.Second)
	require.True(t, b.affords(now.Add(scanShare*cost-scanSavings)))
	require.Equal(t, now.Add(-10*time.Second-scanSavings+scanShare*cost), b.next)
}
