//go:build linux

package events

import (
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/event"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/spec"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Plan selects the operations for a command.
type Plan struct {
	// Where are conditions, and By are expressions. At least one operation must have all the variables they use.
	Where, By []string
}

// NewPlan returns the plan for the operations with some names, or for all operations if there are no names. It changes
// the configuration to select their probes, and removes its condition.
func NewPlan(config *run.Config, names, by []string) (*Plan, error) {
	if len(names) == 0 {
		names = []string{"*:*"}
	}
	for _, name := range names {
		if spec, err := spec.Parse(name); err == nil && spec.Functions {
			return nil, console.Usagef("%v selects functions, and top shows operations with two probes: stapsdt latency shows how long functions take", spec)
		}
	}
	where, err := takeWhere(config)
	config.Specs, config.Others = replay.OperationSpecs(names)
	return &Plan{Where: where, By: by}, err
}

// takeWhere removes the condition of a configuration, and returns its parts.
func takeWhere(config *run.Config) (parts []string, err error) {
	if config.Where != "" {
		err = bpf.CheckSyntax(config.Where)
	}
	parts, config.Where = bpf.SplitWhere(config.Where), ""
	return parts, err
}

// Functions reports whether the names select functions. It returns an error if only some of them do.
func Functions(names []string) (bool, error) {
	functions, other := 0, ""
	for _, name := range names {
		if spec, err := spec.Parse(name); err == nil && spec.Functions {
			functions++
		} else {
			other = name
		}
	}
	if functions > 0 && other != "" {
		return false, console.Usagef("%s selects no functions, and other SPECs do: give either", other)
	}
	return functions > 0, nil
}

// NewCalls changes the configuration to select the calls and returns of functions, removes its condition, and returns
// the options of their stream.
func NewCalls(config *run.Config, names []string) (o Options, err error) {
	o = Options{Goroutines: true, Calls: &Calls{}}
	if o.Calls.Where, err = takeWhere(config); err != nil {
		return o, err
	}
	config.Specs = nil
	for _, name := range names {
		if strings.HasSuffix(name, spec.ReturnSuffix) {
			return o, console.Usagef("tree pairs calls with their returns: give %s", strings.TrimSuffix(name, spec.ReturnSuffix))
		}
		config.Specs = append(config.Specs, name, name+spec.ReturnSuffix)
	}
	return o, nil
}

// Options returns the options of the plan's stream.
func (p *Plan) Options(from replay.From) Options {
	return Options{From: from, Goroutines: true, Needs: live.Needs{
		Kernel: live.Thread(slices.Concat(p.Where, p.By)...),
		All: func(all []*recording.Probe) error {
			return (&replay.Operations{Where: p.Where, By: p.By}).Check(all)
		},
	}}
}

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
