//go:build linux && (amd64 || arm64)

package soak

// phase is one way to fire and to disturb. The figures are those of a scale of 1.
type phase struct {
	name   string
	fires  int // in windows
	cycles int // each of which has one window
	weight int // its share of the time, in percent

	// lanes are worked at concurrently, each with a probe and a cycle of its own.
	lanes int
	// firers fire at all of the lanes. They are threads where locked is set, and else goroutines.
	firers int
	locked bool
	// depth is how many calls deep a firer may fire.
	depth int
	shape shape

	cycle cycle
	// exact says that a tracer is attached before the first fire and until after the last, so that those in no window are
	// counted too.
	exact   bool
	disturb []disturbance
}

// firesAtOnce is how many fires a firer makes before it looks for what changed.
const firesAtOnce = 16

// The weights add up to 100.
var phases = []phase{
	{name: "threads", fires: 10_000_000, cycles: 20, weight: 30, firers: 2, locked: true, shape: texts, cycle: stay, exact: true},
	{name: "attach", fires: 500_000, cycles: 500, weight: 15, lanes: 10, firers: 2, shape: texts, cycle: attach},
	{name: "reload", fires: 500_000, cycles: 1000, weight: 20, lanes: 5, firers: 2, shape: texts, cycle: reload},
	{name: "disturbed", fires: 2_000_000, cycles: 20, weight: 15, firers: 8, depth: 1000, shape: many, cycle: stay, exact: true, disturb: disturbances},
	{name: "providers", fires: 200_000, cycles: 1000, weight: 10, lanes: 20, firers: 2, shape: texts, cycle: churn},
	{name: "all", fires: 500_000, cycles: 250, weight: 10, lanes: 10, firers: 4, depth: 500, shape: many, cycle: churn, disturb: disturbances},
}

// scaled is the phase with more or less to do.
func (p phase) scaled(scale float64) phase {
	p.lanes = max(p.lanes, 1)
	p.cycles = max(int(float64(p.cycles)*scale), p.lanes, 2)
	p.fires = max(int(float64(p.fires)*scale), p.cycles)
	return p
}
