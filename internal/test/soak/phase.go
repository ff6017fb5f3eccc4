//go:build linux && (amd64 || arm64)

package main

// phase is one way to fire and to disturb. The figures are those of the standard time.
type phase struct {
	name   string
	fires  int // in windows
	cycles int // each of which has one window
	weight int // of its share of the time

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

var phases = []phase{
	{name: "threads", fires: 10_000_000, cycles: 20, weight: 20, firers: 2, locked: true, shape: words, cycle: stay, exact: true},
	{name: "strings", fires: 10_000_000, cycles: 20, weight: 24, firers: 2, locked: true, shape: texts, cycle: stay, exact: true},
	{name: "attach", fires: 500_000, cycles: 500, weight: 12, lanes: 10, firers: 2, shape: texts, cycle: attach},
	{name: "reload", fires: 500_000, cycles: 1000, weight: 15, lanes: 5, firers: 2, shape: texts, cycle: reload},
	{name: "profiler", fires: 2_000_000, cycles: 20, weight: 6, firers: 4, shape: texts, cycle: stay, exact: true, disturb: []disturbance{profiler}},
	{name: "collector", fires: 1_000_000, cycles: 20, weight: 4, firers: 4, shape: texts, cycle: stay, exact: true, disturb: []disturbance{collector}},
	{name: "stacks", fires: 1_000_000, cycles: 20, weight: 5, firers: 8, depth: 1000, shape: many, cycle: stay, exact: true, disturb: []disturbance{collector}},
	{name: "procs", fires: 1_000_000, cycles: 20, weight: 4, firers: 8, shape: texts, cycle: stay, exact: true, disturb: []disturbance{procs}},
	{name: "providers", fires: 200_000, cycles: 1000, weight: 10, lanes: 20, firers: 2, shape: texts, cycle: churn},
	{name: "all", fires: 500_000, cycles: 250, weight: 8, lanes: 10, firers: 4, depth: 500, shape: many, cycle: churnAndReload,
		disturb: []disturbance{profiler, collector, procs}},
}

// scaled is the phase with more or less to do.
func (p phase) scaled(scale float64) phase {
	p.lanes = max(p.lanes, 1)
	p.cycles = max(int(float64(p.cycles)*scale), p.lanes, 2)
	p.fires = max(int(float64(p.fires)*scale), p.cycles)
	return p
}

func findPhase(name string) (phase, bool) {
	for _, p := range phases {
		if p.name == name {
			return p, true
		}
	}
	return phase{}, false
}
