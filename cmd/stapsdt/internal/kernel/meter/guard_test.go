//go:build linux

package meter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// guarded drives a guard through intervals of 50 ms, in which the processes use a part of a
// processor. Only units that do not rest have costs.
type guarded struct {
	*Guard
	now    time.Time
	used   time.Duration
	units  []*Unit
	spent  time.Duration // the cost of all units
	detach int           // how often a unit was detached
}

func newGuarded(share float64, units int) *guarded {
	g := &guarded{Guard: NewGuard(share), now: time.Unix(1000, 0)}
	for range units {
		g.units = append(g.units, &Unit{})
	}
	g.Check(g.now, 0, g.units)
	return g
}

// run lets time pass, in which each unit that does not rest costs a part of a processor.
func (g *guarded) run(d, each time.Duration, costs ...float64) {
	for range d / step {
		g.now, g.used = g.now.Add(step), g.used+each
		for i, share := range costs {
			if !g.Rests(g.units[i]) {
				cost := time.Duration(share * float64(step))
				g.units[i].Cost += cost
				g.spent += cost
			}
		}
		v := g.Check(g.now, g.used, g.units)
		g.detach += len(v.Over)
		if v.Again != nil {
			g.Try(v.Again, g.now)
		}
	}
}

func (g *guarded) resting() (n int) {
	for _, u := range g.units {
		if g.Rests(u) {
			n++
		}
	}
	return n
}

// TestGuard: over hours, expensive units take no more than their share, however often they are tried
// again. They come back when they have become cheap. Cheap ones stay.
func TestGuard(t *testing.T) {
	g := newGuarded(0.01, 3)
	g.run(2*time.Hour, step, 0.6, 0.005, 0.3)
	require.Equal(t, 2, g.resting())
	require.False(t, g.Rests(g.units[1]))
	require.Greater(t, g.detach, 4, "each is tried again")
	require.Less(t, g.detach, 100)
	require.LessOrEqual(t, g.spent, time.Duration(0.01*float64(g.used)))
	cost, used := g.Spent()
	require.Equal(t, []time.Duration{g.spent, g.used}, []time.Duration{cost, used})

	g.run(lastRest+time.Minute, step, 0.0001, 0.005, 0.0001)
	require.Zero(t, g.resting())
	was := g.detach
	g.run(2*lastRest, step, 0.0001, 0.005, 0.0001)
	require.Equal(t, was, g.detach)
	g.run(time.Second, step, 0.6, 0.005, 0.0001)
	require.True(t, g.IsFirst(g.units[0]), "it was attached for long")
}

// TestGuardRepays: what an idle process has cost is paid before a unit is tried again.
func TestGuardRepays(t *testing.T) {
	const idle = step / 5
	g := newGuarded(0.01, 1)
	g.run(step, idle, 0.5) // 25 ms, which the process allows in 12 s
	require.Equal(t, 1, g.resting())
	require.True(t, g.IsFirst(g.units[0]))
	g.run(11*time.Second, idle, 0)
	require.Equal(t, 1, g.resting())
	g.run(2*time.Second, idle, 0)
	require.Zero(t, g.resting())
}

// TestGuardNegligible: a process that does almost nothing still allows some events, and no process is
// believed to have used more than all processors.
func TestGuardNegligible(t *testing.T) {
	g := newGuarded(0.01, 1)
	g.run(time.Minute, 0, 0.0005)
	require.Zero(t, g.resting())
	g.used += 1000 * time.Hour
	g.run(time.Minute, 0, 0.5)
	require.Equal(t, 1, g.resting())
}
