//go:build linux

package events

import (
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/spec"
)

// Truth is the truth value of a condition.
type Truth uint8

// The values of a condition.
const (
	// Absent means that the event lacks something that the condition uses.
	Absent Truth = iota
	False
	True
)

// Call is the kernel's data about an event of a function.
type Call struct {
	// G is the address of the goroutine's g, and Depth is the depth of its stack: both are equal for a call and its
	// return. G is 0 on other stacks.
	G, Depth uint64
	// Return means that the event is a return of the function.
	Return bool
	// Failed means that one of the results is an error.
	Failed bool
	// Where holds the values of the conditions of Calls.Where.
	Where []Truth
}

// Calls asks the kernel for the Call of each event.
type Calls struct {
	// Where are conditions. Each is evaluated at the calls and returns that have all the variables it uses.
	Where []string
}

// callItems holds the indexes of a Call's values in the items of a source.
type callItems struct {
	call   int
	where  []int // -1 for a condition that the probe cannot evaluate
	errors []int // the indexes of the results that are errors
}

// add adds the values of a Call to the records of a probe.
func (c *Calls) add(t *bpf.Trace, p *bpf.Probe) (items callItems, err error) {
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
	for i, a := range p.Args {
		if p.Function.Return && a.Dynamic && a.Type.Name == "error" {
			items.errors = append(items.errors, i)
		}
	}
	return items, nil
}

// check returns an error if no function has all the variables that a condition uses.
func (c *Calls) check(all []*bpf.Probe) error {
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
		if !fits && first != nil {
			return console.Usagef("%w (and no other function has all that this asks for)", first)
		}
	}
	return nil
}

// decode reads the Call of an event.
func (c *Call) decode(e *event.Event, s *tracedProbe) {
	*c = Call{Return: strings.HasSuffix(s.probe.Name, spec.ReturnSuffix), Where: c.Where[:0]}
	if v := e.Value(s.shown.all, s.calls.call); !v.Missing {
		c.G, c.Depth = v.Bits, e.Second(s.shown.all, s.calls.call)
	}
	for _, i := range s.calls.where {
		truth := Absent
		if i >= 0 {
			truth = False
			if v := e.Value(s.shown.all, i); !v.Missing && v.Bits != 0 {
				truth = True
			}
		}
		c.Where = append(c.Where, truth)
	}
	for _, i := range s.calls.errors {
		v := e.Value(s.shown.all, i)
		c.Failed = c.Failed || !v.Missing && v.Bits != 0
	}
}
