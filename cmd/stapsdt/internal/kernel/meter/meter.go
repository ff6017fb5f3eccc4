//go:build linux

// Package meter measures the cost of probes for the traced programs, and decides which probes are
// too expensive for a budget. The cost of a probe is the number of its events, times the price of
// its instruction on this machine and the time that its BPF program takes.
package meter

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/price"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"

	"golang.org/x/sys/unix"
)

// Meter counts the events of the programs of a run, and their cost. Its methods must be called by
// one goroutine.
type Meter struct {
	// Whole means that all probes are one unit.
	Whole bool

	env      *bpf.Env
	prices   price.Table
	room     int
	counters *bpf.Meter     // nil until a program is metered
	programs []*program     // by slots
	slots    map[string]int // by bpf.Probe.Key
	units    []*Unit
}

// Unit is a set of probes that are detached together: a function's calls and returns, or the start
// and the end of an operation, because one without the other would mislead.
type Unit struct {
	Name string
	// Probes are the names of its probes, and Keys the results of bpf.Probe.Key.
	Probes []string
	Keys   map[string]bool
	// Loop means that a probe is a line in a loop.
	Loop bool
	// Count is the number of its events so far, and Cost the processor time of the programs that
	// they took.
	Count uint64
	Cost  time.Duration
}

// program is a program that is metered.
type program struct {
	unit  *Unit
	price time.Duration
	last  layout.Hits
}

// New returns a meter for at most room programs of a run. Without prices, it only counts.
func New(env *bpf.Env, prices price.Table, room int) *Meter {
	return &Meter{env: env, prices: prices, room: room, slots: map[string]int{}}
}

// Close releases the counters.
func (m *Meter) Close() error {
	if m.counters == nil {
		return nil
	}
	return m.counters.Close()
}

// Units returns the units of all programs so far.
func (m *Meter) Units() []*Unit { return m.units }

// Full reports whether there is no room for another program.
func (m *Meter) Full() bool { return len(m.programs) == m.room }

// Sections adds the sections that meter a probe's program to the program's sections.
func (m *Meter) Sections(
	p *bpf.Probe, sections []*bpf.Section,
) (_ []*bpf.Section, err error) {
	slot, known := m.slots[p.Key()]
	if !known && m.Full() {
		return nil, fmt.Errorf("there are too many different probes: the cost of at most %d is measured", m.room)
	}
	if m.counters == nil {
		if m.counters, err = bpf.NewMeter(m.env, m.room); err != nil {
			return nil, err
		}
	}
	if !known {
		slot = len(m.programs)
	}
	first, err := m.counters.First(uint32(slot))
	if err != nil {
		return nil, err
	}
	last, err := m.counters.Last(uint32(slot))
	if err != nil {
		return nil, err
	}
	if !known {
		m.slots[p.Key()] = slot
		m.programs = append(
			m.programs, &program{unit: m.unit(p), price: m.prices.Of(p.Instruction())},
		)
	}
	return slices.Concat([]*bpf.Section{first}, sections, []*bpf.Section{last}), nil
}

// unit returns the unit of a probe, and adds the probe to it.
func (m *Meter) unit(p *bpf.Probe) *Unit {
	name := unitName(p)
	i := slices.IndexFunc(m.units, func(u *Unit) bool { return m.Whole || u.Name == name })
	if i < 0 {
		i = len(m.units)
		m.units = append(m.units, &Unit{Name: name, Keys: map[string]bool{}})
	}
	u := m.units[i]
	u.Keys[p.Key()] = true
	u.Loop = u.Loop || p.InLoop()
	if !slices.Contains(u.Probes, p.String()) {
		u.Probes = append(u.Probes, p.String())
	}
	return u
}

// unitName returns the name of the function or of the operation to which a probe belongs.
func unitName(p *bpf.Probe) string {
	if p.Function != nil {
		return strings.TrimSuffix(p.String(), spec.ReturnSuffix)
	}
	for _, suffix := range []string{"__start", "__end", "__done"} {
		if name, ok := strings.CutSuffix(p.String(), suffix); ok {
			return name
		}
	}
	return p.String()
}

// Read adds the events and costs since its last call to the units.
func (m *Meter) Read() error {
	for slot, p := range m.programs {
		hits, err := m.counters.Read(uint32(slot))
		if err != nil {
			return err
		}
		p.add(hits)
	}
	return nil
}

// add adds the hits of a program since its last call. Only some runs are measured; their average is
// used for the others.
func (p *program) add(hits layout.Hits) {
	count := hits.Count - p.last.Count
	p.last = hits
	p.unit.Count += count
	each := p.price
	if hits.Measured > 0 {
		each += hits.Time / time.Duration(hits.Measured)
	}
	p.unit.Cost += time.Duration(count) * each
}

// Processor sums the processor time of processes.
type Processor struct {
	last map[int]time.Duration // by PID
	used time.Duration
}

// Used returns the processor time that processes have used since its first call, in nanoseconds.
// pids are the existing processes. The time of a process that has ended is included up to the last
// call that saw it.
func (p *Processor) Used(pids []int) time.Duration {
	first := p.last == nil
	now := map[int]time.Duration{}
	for _, pid := range pids {
		used, err := processTime(pid)
		if err != nil {
			continue // it has ended
		}
		now[pid] = used
		if before, known := p.last[pid]; known && before <= used {
			p.used += used - before
		} else if !first {
			p.used += used
		}
	}
	p.last = now
	return p.used
}

// processTime returns the processor time of a process by its clock (clock_getcpuclockid(3)), which
// needs no rights, and has nanoseconds where /proc/PID/stat has hundredths of a second.
func processTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}
