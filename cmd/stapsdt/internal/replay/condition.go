//go:build linux

package replay

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Condition selects events by an expression.
type Condition struct {
	where string
	known map[*recording.Probe]*Measure // nil for a probe that does not have what the condition asks for
	unfit probes.Unfit
	// faults counts the events for which it could not be evaluated.
	faults uint64
}

// NewCondition returns a condition. Every event meets the empty condition.
func NewCondition(where string) (*Condition, error) {
	if where != "" {
		if err := bpf.CheckSyntax(where); err != nil {
			return nil, err
		}
	}
	return &Condition{where: where, known: map[*recording.Probe]*Measure{}}, nil
}

// Check returns an error if the condition fits none of the probes.
func (c *Condition) Check(all []*recording.Probe) (err error) {
	for _, p := range all {
		if c.where == "" {
			return nil
		}
		if _, err = NewEvaluator(p).ParseFilter(c.where); err == nil {
			return nil
		}
	}
	if err == nil {
		return nil // there are no probes yet
	}
	return console.Usagef("%w", err)
}

// Meets reports whether an event meets the condition. It is false if the probe does not have what the condition asks for.
func (c *Condition) Meets(e *recording.Event) bool {
	if c.where == "" {
		return true
	}
	m, known := c.known[e.Probe]
	if !known {
		var err error
		if m, err = NewMeasure(e.Probe, bpf.Counting{Where: c.where}); err != nil {
			c.unfit.Add(err)
		}
		c.known[e.Probe] = m
	}
	if m == nil {
		return false
	}
	meets, fault := m.Take(e)
	if fault {
		c.faults++
	}
	return meets
}

// Report warns of the probes that were left out although they fired, and of the events for which the condition could not be evaluated.
func (c *Condition) Report(to *console.Console) {
	if line := c.unfit.Take(len(c.known)); line != "" {
		to.Warn("%s", line)
	}
	Unevaluated(to, c.faults)
}
