//go:build linux

package operations

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/engine"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Ends gives the ends of operations, and the returns of functions, what expressions use of their
// starts: see bpf.Started.
type Ends struct {
	names  []string
	stacks *layout.StackTable // nil unless the stacks of events are asked for
	shared bool
	plans  map[string]*plan // by PROVIDER:NAME of the operations
	wrong  map[string]error // likewise, for names of expressions that the start lacks
	tables map[shape]*Operations
}

// plan is the plan of the operations of one name.
type plan struct {
	*bpf.Latency
	start *bpf.Probe
	of    bpf.Operations
	err   error // the reason that the operations cannot be paired
}

// shape is what operations in one table have in common.
type shape struct{ key, value int }

// NewEnds returns the Ends for expressions, or nil if none needs a start. If stacks is not nil, the
// stack of a return is that of the call. shared divides the room for open operations among the
// users of the machine.
func NewEnds(exprs []string, stacks *layout.StackTable, shared bool) *Ends {
	names := expr.Names(exprs...)
	if stacks == nil && !query.UsesStart(names) {
		return nil
	}
	return &Ends{
		names: names, stacks: stacks, shared: shared,
		plans: map[string]*plan{}, wrong: map[string]error{}, tables: map[shape]*Operations{},
	}
}

// Needs reports whether the expressions use something of the start that the end lacks. It plans the
// pairing of the two when it is first asked about an operation.
func (e *Ends) Needs(f *target.File, start, end *sdt.Site) bool {
	first, last := engine.NewProbe(f, *start), engine.NewProbe(f, *end)
	name, _ := spec.OperationOf(start.Provider, start.Name)
	name = start.Provider + ":" + name
	err := query.StartError(e.names, func(src string) error {
		_, err := first.Parse(src)
		return err
	})
	if err != nil {
		e.wrong[name] = fmt.Errorf("%v: %w", first, err)
		return false
	}
	lacking := e.lacking(last, first)
	if len(lacking) == 0 && (e.stacks == nil || first.Function == nil) {
		return false
	}
	if e.plans[name] == nil {
		e.plans[name] = e.plan(first, lacking)
	}
	return true
}

func (e *Ends) lacking(end, start *bpf.Probe) []string {
	return query.Lacking(e.names, end.Has, start.HasArg)
}

// plan plans the operations of a start, which keeps what their ends lack.
func (e *Ends) plan(start *bpf.Probe, lacking []string) *plan {
	p := &plan{start: start}
	if len(e.plans) >= query.MaxKinds {
		p.err = fmt.Errorf("there are more than %d kinds of operations", query.MaxKinds)
		return p
	}
	key, stacks := "arg0", (*layout.StackTable)(nil)
	if start.Function != nil {
		key, stacks = query.Call, e.stacks
	}
	if stacks != nil {
		p.err = start.StackErr()
	}
	if p.err == nil {
		p.Latency, p.err = bpf.NewKept(start, key, bpf.Kept(lacking), stacks)
	}
	if p.err != nil {
		return p
	}
	var shape shape
	shape.key, shape.value = p.Sizes()
	of := e.tables[shape]
	if of == nil {
		of = &Operations{Shared: e.shared, Plan: p.Latency, purged: time.Now()}
		if of.Tables, p.err = p.NewTables(e.shared); p.err != nil {
			p.err = bpf.MapError(p.err)
			return p
		}
		e.tables[shape] = of
	}
	p.of = bpf.Operations{OperationTables: of.Tables, Kind: uint32(len(e.plans))}
	return p
}

// Subscriber returns a subscriber in place of another one, which is given the ends with their
// Started. It is for the starts too that the Ends need.
func (e *Ends) Subscriber(
	s engine.Subscriber, selector *probes.Selector, env *bpf.Env,
) engine.Subscriber {
	return &ending{s, e, selector, env}
}

// ending is a Subscriber of the Ends.
type ending struct {
	engine.Subscriber
	*Ends
	selector *probes.Selector
	env      *bpf.Env
}

func (e *ending) Section(p *bpf.Probe) (*bpf.Section, error) {
	name, isStart := spec.OperationOf(p.Provider, p.Name)
	name = p.Provider + ":" + name
	plan := e.plans[name]
	switch {
	case plan == nil && !isStart && e.wrong[name] != nil:
		return nil, e.wrong[name]
	case plan == nil:
		return e.Subscriber.Section(p)
	case isStart:
		return e.start(p, plan)
	case plan.err != nil:
		return nil, plan.err
	case len(e.lacking(p, plan.start)) == 0 && !plan.KeepsStacks():
		return e.Subscriber.Section(p)
	}
	end := *p
	end.Started = &bpf.Started{Plan: plan.Latency, Of: plan.of}
	return e.Subscriber.Section(&end)
}

// start returns the section of a start. One that the user has named too is an event of its own, if
// it fits the expressions.
func (e *ending) start(p *bpf.Probe, plan *plan) (*bpf.Section, error) {
	var own *bpf.Section
	if e.selector.Matches(p.Provider, p.Name) {
		own, _ = e.Subscriber.Section(p)
	}
	if plan.err != nil {
		return own, nil // it is the error of the ends
	}
	section, err := plan.Start(e.env, plan.of, p)
	if err != nil || own == nil {
		return section, err
	}
	return bpf.Join(own, section), nil
}

// Totals returns the totals of all operations.
func (e *Ends) Totals() (all query.Totals, err error) {
	for _, p := range e.plans {
		if p.err != nil {
			continue
		}
		one, err := layout.ReadTotals(p.of.Totals, p.of.Kind)
		if err != nil {
			return all, err
		}
		all.Add(one)
	}
	return all, nil
}

// Unwatched removes the open calls of functions in processes: a later return at the same depth
// would be taken for theirs.
func (e *Ends) Unwatched(functions []string, pids map[int]bool) error {
	gone := map[uint32]bool{}
	for name, p := range e.plans {
		gone[p.of.Kind] = p.err == nil && slices.Contains(functions, name)
	}
	for _, of := range e.tables {
		err := of.Remove(func(o *layout.Open) bool { return pids[o.PID] && gone[o.Kind] })
		if err != nil {
			return err
		}
	}
	return nil
}

// Purge removes the operations of ended processes, now and then.
func (e *Ends) Purge() error {
	for _, of := range e.tables {
		if err := of.Purge(); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the pairing of starts and ends at the same time.
func (e *Ends) Stop() error {
	for _, of := range e.tables {
		if err := of.Tables.Stop(); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the tables.
func (e *Ends) Close() {
	for _, of := range e.tables {
		of.Close()
	}
}
