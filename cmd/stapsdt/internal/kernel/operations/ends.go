//go:build linux

package operations

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
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
	// Paired is called when an end is first found to need its start. It may be nil.
	Paired func()

	names  []string
	stacks *layout.StackTable // nil unless the stacks of events are asked for
	shared bool
	wanted map[string]bool // the starts that ends need, by bpf.Probe.Key

	mu     sync.Mutex            // guards the following fields, which scrapes and the engine use
	plans  map[string]*plan      // by PROVIDER:NAME of the operations, and what their starts keep
	tables map[shape]*Operations // of the plans
	kinds  uint32                // the number of kinds so far
}

// plan is the plan of the operations of one name, whose starts keep values of the same types.
type plan struct {
	*bpf.Latency
	name string // PROVIDER:NAME
	of   bpf.Operations
	err  error // the reason that the operations cannot be paired
}

// shape is what operations in one table have in common.
type shape struct{ key, value int }

// maxTables bounds the tables of an Ends, of which each has room for query.MaxOpen operations: the
// types in a program choose their shapes.
const maxTables = 8

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
		wanted: map[string]bool{}, plans: map[string]*plan{}, tables: map[shape]*Operations{},
	}
}

// Needs reports whether the expressions use something of the start that the end lacks.
func (e *Ends) Needs(f *target.File, start, end *sdt.Site) bool {
	first, last := engine.NewProbe(f, *start), engine.NewProbe(f, *end)
	needs := len(e.lacking(last, first)) > 0 || e.keepsStack(first) || e.misses(last, first) != nil
	if !needs {
		return false
	}
	if e.Paired != nil {
		e.Paired()
		e.Paired = nil
	}
	e.wanted[first.Key()] = true
	return true
}

func (e *Ends) lacking(end, start *bpf.Probe) []string {
	return query.Lacking(e.names, end.Has, start.HasArg)
}

// misses returns the error of a name that the start should have, and has not.
func (e *Ends) misses(end, start *bpf.Probe) error {
	names := slices.DeleteFunc(slices.Clone(e.names), end.Has)
	err := query.StartError(names, func(src string) error {
		_, err := start.Parse(src)
		return err
	})
	if err != nil {
		return fmt.Errorf("%v: %w", start, err)
	}
	return nil
}

// keepsStack reports whether a start keeps its stack.
func (e *Ends) keepsStack(start *bpf.Probe) bool { return e.stacks != nil && start.Function != nil }

// plan returns the plan of the operations of a start, which it makes for the first one.
func (e *Ends) plan(start *bpf.Probe) *plan {
	e.mu.Lock()
	defer e.mu.Unlock()
	name, _ := spec.OperationOf(start.Provider, start.Name)
	name = start.Provider + ":" + name
	kept := start.Kept(e.names)
	id := name + " " + start.Layout(append(slices.Clone(kept), keyOf(start)))
	if e.plans[id] == nil {
		e.plans[id] = e.newPlan(start, kept)
		e.plans[id].name = name
	}
	return e.plans[id]
}

// keyOf returns the key that pairs the operations of a start.
func keyOf(start *bpf.Probe) string {
	if start.Function != nil {
		return query.Call
	}
	return "arg0"
}

func (e *Ends) newPlan(start *bpf.Probe, kept []string) *plan {
	p, stacks := &plan{}, (*layout.StackTable)(nil)
	if e.keepsStack(start) {
		stacks, p.err = e.stacks, start.StackErr()
	}
	if p.err == nil {
		p.Latency, p.err = bpf.NewKept(start, keyOf(start), kept, stacks)
	}
	if p.err != nil {
		return p
	}
	var shape shape
	shape.key, shape.value = p.Sizes()
	of := e.tables[shape]
	if of == nil && len(e.tables) == maxTables {
		p.err = fmt.Errorf("the starts have arguments of too many different sizes: at most %d are paired", maxTables)
		return p
	}
	if of == nil {
		of = &Operations{Shared: e.shared, Plan: p.Latency, purged: time.Now()}
		if of.Tables, p.err = p.NewTables(e.shared); p.err != nil {
			p.err = bpf.MapError(p.err)
			return p
		}
		e.tables[shape] = of
	}
	e.kinds++
	p.of = bpf.Operations{OperationTables: of.Tables, Kind: e.kinds, Summed: true}
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
	switch {
	case p.Start == nil:
		return e.Subscriber.Section(p)
	case p.Start == p:
		return e.start(p)
	}
	if err := e.misses(p, p.Start); err != nil {
		return nil, err
	}
	if len(e.lacking(p, p.Start)) == 0 && !e.keepsStack(p.Start) {
		return e.Subscriber.Section(p) // another rule needs the start
	}
	plan := e.plan(p.Start)
	if plan.err != nil {
		return nil, plan.err
	}
	end := *p
	end.Started = &bpf.Started{Plan: plan.Latency, Of: plan.of}
	return e.Subscriber.Section(&end)
}

// start returns the section of a start. One that the user has named too is an event of its own, if
// it fits the expressions.
func (e *ending) start(p *bpf.Probe) (own *bpf.Section, err error) {
	alone := *p
	alone.Start = nil
	if e.selector.Matches(p.Provider, p.Name) {
		if own, err = e.Subscriber.Section(p); stall.Passes(err) {
			return nil, err
		}
	}
	if !e.wanted[alone.Key()] { // another rule needs the start
		return own, err
	}
	plan := e.plan(p)
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
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, of := range e.tables {
		one, err := layout.ReadTotals(of.Tables.Totals, 0)
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
	e.mu.Lock()
	defer e.mu.Unlock()
	gone := map[uint32]bool{}
	for _, p := range e.plans {
		if p.err == nil && slices.Contains(functions, p.name) {
			gone[p.of.Kind] = true
		}
	}
	return e.each(func(of *Operations) error {
		return of.Remove(func(o *layout.Open) bool { return pids[o.PID] && gone[o.Kind] })
	})
}

// each calls f for the operations of each table. e.mu must be held.
func (e *Ends) each(f func(*Operations) error) error {
	for _, of := range e.tables {
		if err := f(of); err != nil {
			return err
		}
	}
	return nil
}

// Purge removes the operations of ended processes, now and then.
func (e *Ends) Purge() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.each((*Operations).Purge)
}

// Stop ends the pairing of starts and ends at the same time.
func (e *Ends) Stop() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.each(func(of *Operations) error { return of.Tables.Stop() })
}

// Close releases the tables.
func (e *Ends) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, of := range e.tables {
		of.Close()
	}
}
