//go:build linux

package source

import (
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// callItems holds the indexes of a Call's values in the items of a source.
type callItems struct {
	call   int
	where  []int // -1 for a condition that the probe cannot evaluate
	errors []int // the indexes of the results that are errors
}

// addCall adds the values of a Call to the records of a probe.
func addCall(c *events.Calls, t *bpf.Trace, p *bpf.Probe) (items callItems, err error) {
	items.call = len(t.Items)
	t.AddCall()
	for _, src := range c.Where {
		e, err := p.ParseFilter(src)
		if err != nil {
			items.where = append(items.where, -1)
			continue
		}
		items.where = append(items.where, len(t.Items))
		if err := t.AddCondition(e); err != nil {
			return items, err
		}
	}
	for i := range p.Args {
		if p.IsError(i) {
			items.errors = append(items.errors, i)
		}
	}
	return items, nil
}

// checkCalls returns an error if no function has all the variables that a condition uses.
func checkCalls(c *events.Calls, all []*bpf.Probe) error {
	for _, src := range c.Where {
		var first error
		fits := false
		for _, p := range all {
			_, err := p.ParseFilter(src)
			fits = fits || err == nil
			if first == nil {
				first = err
			}
		}
		if !fits && first != nil && query.UsesStart(expr.Names(src)) {
			return query.Usagef("%s: tree has --slowest N for slow calls; trace has elapsed at go:FUNCTION:return", src)
		}
		if !fits && first != nil {
			return query.Usagef("%w (and no other function has everything that this uses)", first)
		}
	}
	return nil
}

// decodeCall reads the Call of an event.
func decodeCall(c *events.Call, e *layout.Event, s *tracedProbe) {
	*c = events.Call{Return: strings.HasSuffix(s.probe.Name, spec.ReturnSuffix), Where: c.Where[:0]}
	if v := e.Value(s.items, s.calls.call); !v.Missing {
		c.G, c.Depth = v.Bits, e.Second(s.items, s.calls.call)
	}
	for _, i := range s.calls.where {
		truth := events.Absent
		if i >= 0 {
			truth = events.False
			if v := e.Value(s.items, i); !v.Missing && v.Bits != 0 {
				truth = events.True
			}
		}
		c.Where = append(c.Where, truth)
	}
	for _, i := range s.calls.errors {
		v := e.Value(s.items, i)
		c.Failed = c.Failed || !v.Missing && v.Bits != 0
	}
}
