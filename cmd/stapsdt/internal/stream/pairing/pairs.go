// Package pairing pairs the starts of operations with their ends.
package pairing

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Pairs pairs the starts of operations with their ends, as the kernel does. All kinds of operations
// share the room for open ones.
type Pairs struct {
	// Open has the open operations, selected or not.
	Open Table[pairKey, *Operation]
	// Unknown counts the events for which the recording lacks the value that pairs them, and
	// Unevaluated the events with an expression that divides by zero.
	Unknown, Unevaluated uint64

	plan  Plan                       // of the kinds that AddSide finds
	sides map[*recording.Probe]*side // nil for a probe that is ignored
	kinds []*Kind                    // by their numbers, or nil
	first [2]*side                   // the first start and the first end
	key   Key                        // see keyOf
}

// Plan selects the operations that are paired, and the values that are kept.
type Plan struct {
	query.Pairing
	// TextSize is the number of bytes of a string in Operation.Details that are kept, or 0 for
	// the kernel's limit.
	TextSize int
	// All also returns operations that do not meet the conditions.
	All bool
	// Unfit, if it is not nil, counts the sides of kinds that are left out because a side lacks
	// variables of the plan. It is an error if all kinds are left out.
	Unfit *query.Unfit
}

// NewPairs returns a Pairs for some probes. The start and the end of each kind that have most of
// the expressions, the first of them, determine which side evaluates each: programs of several
// versions may have the same operations.
func NewPairs(plan Plan, sides []Side) (*Pairs, error) {
	p := &Pairs{plan: plan, sides: map[*recording.Probe]*side{}}
	all := make([]*side, len(sides))
	for i, s := range sides {
		all[i] = p.newSide(s)
	}
	if p.first[0] == nil || p.first[1] == nil {
		return nil, fmt.Errorf("%w: both the start and the end must exist", query.ErrNothing)
	}
	for _, s := range all {
		p.prefer(s)
	}
	errs := make([]error, len(all))
	for i, s := range all {
		if errs[i] = p.add(s); errs[i] != nil && plan.Unfit == nil {
			return nil, errs[i]
		}
	}
	for i, s := range all {
		if errs[i] != nil && !s.kind.added[s.which()] {
			s.kind.unfit = errs[i]
		}
	}
	if !slices.ContainsFunc(all, func(s *side) bool { return s.kind.Fits() }) {
		return nil, all[0].kind.unfit
	}
	for i, s := range all {
		if err := cmp.Or(s.kind.unfit, errs[i]); err != nil {
			p.Ignore(s.Probe)
			plan.Unfit.Add(err)
		}
	}
	return p, nil
}

// prefer makes a side the first of its kind, and of all, if it has more of the expressions.
func (p *Pairs) prefer(s *side) {
	s.count(slices.Concat(p.plan.Key, p.plan.Where, p.plan.By))
	for _, first := range []**side{&s.kind.first[s.which()], &p.first[s.which()]} {
		if s.known > (*first).known { // which was counted before, or is s
			*first = s
		}
	}
}

// kind returns the kind with a number, and creates it for the first side.
func (p *Pairs) kind(number int) *Kind {
	for number >= len(p.kinds) {
		p.kinds = append(p.kinds, nil)
	}
	if p.kinds[number] == nil {
		p.kinds[number] = &Kind{Number: number, plan: &p.plan}
	}
	return p.kinds[number]
}

// newSide returns a side whose expressions are not parsed.
func (p *Pairs) newSide(of Side) *side {
	k := p.kind(of.Kind)
	s := &side{Evaluator: evaluate.NewEvaluator(of.Probe), Side: of, kind: k}
	if !of.IsStart {
		s.Evaluator = evaluate.NewEnd(of.Probe)
	}
	which := s.which()
	k.first[which], p.first[which] = cmp.Or(k.first[which], s), cmp.Or(p.first[which], s)
	return s
}

// add parses the expressions of a side, and adds it.
func (p *Pairs) add(s *side) error {
	first := &s.kind.first
	if err := s.parse(cmp.Or(first[0], p.first[0]), cmp.Or(first[1], p.first[1])); err != nil {
		return err
	}
	p.sides[s.Probe], s.kind.added[s.which()] = s, true
	return nil
}

// Knows reports whether a probe was added, or left out.
func (p *Pairs) Knows(probe *recording.Probe) bool {
	_, known := p.sides[probe]
	return known
}

// Unfit reports whether a kind was left out, or all of its sides so far.
func (p *Pairs) Unfit(kind int) bool {
	k := p.kinds[kind]
	return !k.Fits() || k.first == [2]*side{}
}

// Ignore leaves out a probe.
func (p *Pairs) Ignore(probe *recording.Probe) { p.sides[probe] = nil }

// AddSide adds a side.
func (p *Pairs) AddSide(of Side) error {
	s := p.newSide(of)
	err := p.add(s)
	if first := &s.kind.first[s.which()]; err != nil && *first == s {
		*first = nil // a later one may fit
	}
	return err
}

// Add adds an event, and returns its effect on the selected operations.
func (p *Pairs) Add(e *recording.Event, f *replay.File) Outcome {
	if s := p.sides[e.Probe]; s != nil {
		return p.take(s, e, f)
	}
	return Outcome{}
}

// take adds an event of a side.
func (p *Pairs) take(s *side, e *recording.Event, f *replay.File) (o Outcome) {
	s.At(e)
	key, ok := p.keyOf(s, e)
	if !ok {
		return o
	}
	at := key.at(f, e.PID, s.kind)
	open := p.Open.Get(at)
	if !s.IsStart {
		if open == nil || open.isAfter(e.Monotonic, f) {
			if o.Stray = !f.InPast(); o.Stray {
				s.kind.totals.Ends++
			}
			return o
		}
		p.Open.End(at)
		o.Ended, o.HasEnded = p.end(s, e, open)
		return o
	}
	if open != nil && open.isRepeated(f) {
		open.past = false // a further start is another operation
		return o
	}
	started := s.kind.operation()
	*started = Operation{
		File: f, Kind: s.kind, Since: e.Monotonic, PID: e.PID, TID: e.TID, Goroutine: e.Goroutine,
		Key: append(started.Key[:0], key...), Columns: s.kind.columns, past: f.InPast(),
		Details: started.Details[:0], By: started.By[:0],
	}
	if s.parent >= 0 {
		started.Parent = e.Word(s.parent)
	}
	if p.Open.Start(at, started) && p.start(s, started) {
		o.Started = started
	}
	o.Replaced = open // there is always room for it
	return o
}

// operation returns an operation to be set.
func (k *Kind) operation() *Operation {
	if n := len(k.free) - 1; n >= 0 {
		o := k.free[n]
		k.free = k.free[:n]
		return o
	}
	return new(Operation)
}

// Reuse lets a further operation of the kind take the memory of one that has ended or was replaced.
func (o *Operation) Reuse() { o.Kind.free = append(o.Kind.free, o) }

// end ends an operation. ok reports whether the operation is returned.
func (p *Pairs) end(s *side, e *recording.Event, open *Operation) (ended Ended, ok bool) {
	if open.selected {
		s.kind.totals.Pairs++
	}
	took := e.Monotonic - open.Since
	if open.past {
		took = max(took, 0)
	}
	all := s.kind.plan.All
	s.Took = took
	ended = Ended{Start: open, Took: took, Selected: open.selected && p.matches(s)}
	if !ended.Selected {
		return ended, all
	}
	ended.By = make([]evaluate.Value, len(s.by))
	for i := range s.by {
		if s.by[i].item == nil {
			ended.By[i] = open.By[i]
			continue
		}
		v, fault := s.value(&s.by[i])
		if fault {
			p.Unevaluated++
			ended.Selected = false
			return ended, all
		}
		ended.By[i] = v
	}
	return ended, true
}

// start evaluates the expressions of an operation that has started, and reports whether it is
// returned. One that is not selected is open too, so that its end is not counted as an end without
// a start.
func (p *Pairs) start(s *side, o *Operation) bool {
	all := s.kind.plan.All
	if o.selected = s.kind.Fits() && p.matches(s); !o.selected && !all {
		return false
	}
	o.late, o.unmet = s.late, slices.ContainsFunc(s.both, func(where *expr.Expr) bool {
		match, _ := s.Bool(where)
		return !match
	})
	for i := range s.by {
		v, fault := s.value(&s.by[i])
		if fault {
			p.Unevaluated++
			o.selected = false
			return all
		}
		o.By = append(o.By, v)
	}
	o.Details = slices.Grow(o.Details, len(s.details))[:len(s.details)]
	for i := range s.details {
		if one := &s.details[i]; one.item != nil && one.expr == nil {
			s.SetArg(&o.Details[i], one.item, one.arg)
		} else if v, fault := s.value(one); !fault {
			o.Details[i] = v
		} else {
			o.Details[i] = evaluate.Value{}
		}
	}
	if o.selected {
		s.kind.totals.Starts++
	}
	return true
}

// matches reports whether all conditions of a side are true.
func (p *Pairs) matches(s *side) bool {
	for _, where := range s.where {
		match, fault := s.Bool(where)
		if fault {
			p.Unevaluated++
		}
		if !match {
			return false
		}
	}
	return true
}

// Totals returns the totals of a kind of operation.
func (p *Pairs) Totals(kind int) query.Totals {
	if kind < len(p.kinds) && p.kinds[kind] != nil {
		return p.kinds[kind].totals
	}
	return query.Totals{}
}

// Gone removes the probes of a recording whose process has ended, and the operations that are open
// in it.
func (p *Pairs) Gone(f *replay.File) {
	p.Forget(f.Recorded())
	for at := range p.Open.All() {
		if at.file == f {
			p.Open.End(at)
		}
	}
}

// Forget removes probes.
func (p *Pairs) Forget(all []*recording.Probe) {
	for _, probe := range all {
		delete(p.sides, probe)
	}
}

// Selected returns the open operations that are selected.
func (p *Pairs) Selected() iter.Seq[*Operation] {
	return func(yield func(*Operation) bool) {
		for _, o := range p.Open.All() {
			if o.selected && !yield(o) {
				return
			}
		}
	}
}
