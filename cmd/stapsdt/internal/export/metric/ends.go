//go:build linux

package metric

import (
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/operations"
)

// ends gives the probe of a metric what its expressions use of the start.
type ends struct {
	*operations.Ends
	engine.Subscriber
}

// byProbe is the Subscriber of the ends.
type byProbe struct{ *Traced }

func (m byProbe) Section(p *bpf.Probe) (*bpf.Section, error) { return m.probeSection(p) }

// openEnds sets m.ends, if the expressions use something of the start.
func (m *Traced) openEnds() {
	exprs := append(slices.Clone(m.by), m.Where, m.Value)
	of := operations.NewEnds(exprs, nil, true)
	if of == nil || m.pairs != nil {
		return
	}
	m.Selection.Selector.Starts = of.Needs
	m.ends = &ends{of, of.Subscriber(byProbe{m}, m.Selection.Selector, m.Env)}
}
