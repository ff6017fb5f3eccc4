package replay

import (
	"errors"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// ErrEnough ends the run. A consumer returns it when it needs no more events.
var ErrEnough = errors.New("enough events")

// Needs holds the requirements of a command.
type Needs struct {
	// Exprs are evaluated for events. Each must fit at least one of the selected probes, as the
	// condition of the configuration must.
	Exprs []string
	// Fits returns an error if a probe lacks something that Exprs need. It may be nil.
	Fits func(*recording.Probe) error
	// Pointers means that the command shows what arguments point to.
	Pointers bool
	// All returns an error if the events of all selected probes together lack something that
	// the command needs. It may be nil.
	All func([]*recording.Probe) error

	// Starts allows Exprs and the condition to use query.ElapsedName and the arguments of the start
	// at the end of an operation. Pairing is what the source needs for it, or nil.
	Starts  bool
	Pairing Pairing
	// Where is the condition of the configuration.
	Where string
}

// Unfit returns an error if a probe of a recording lacks something that the command needs.
func (n *Needs) Unfit(p *recording.Probe) error {
	if err := n.Parse(p); err != nil || n.Fits == nil {
		return err
	}
	return n.Fits(p)
}

// Check returns an error if the events of all selected probes together lack something that the
// command needs, in a source other than the kernel.
func (n *Needs) Check(all []*recording.Probe) error {
	for _, p := range all {
		for _, a := range p.Args {
			if n.Pointers && a.Kind == kind.Pointer {
				return query.Usagef("%s:%s: -v shows what %s points to, which only the kernel reads", p.Provider, p.Name, a.Name)
			}
		}
	}
	if n.All == nil {
		return nil
	}
	return n.All(all)
}

// Parse returns an error if the expressions do not fit a probe.
func (n *Needs) Parse(p *recording.Probe) error {
	v := evaluate.NewEvaluator(p)
	if n.Where != "" {
		if _, err := v.ParseFilter(n.Where); err != nil {
			return err
		}
	}
	for _, src := range n.Exprs {
		if _, err := v.Parse(src); err != nil {
			return err
		}
	}
	return nil
}
