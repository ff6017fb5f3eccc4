package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Pairs pairs the starts of operations with their ends, as the kernel does.
type Pairs struct {
	plan  Plan
	sides map[*recording.Probe]*side // nil for a probe that is ignored
	first [2]*Evaluator              // the first start and the first end
	kinds map[int]*pairedKind
	open  map[pairKey]*Operation
	room  int // the maximum number of open operations
	// Full counts the starts for which there was no room, Unknown the events for which the recording lacks the value that
	// pairs them, and Unevaluated the events with an expression that divides by zero.
	Full, Unknown, Unevaluated uint64
}

// pairedKind is a kind of operation.
type pairedKind struct {
	first   [2]*Evaluator // the first start and the first end
	columns *Columns      // of the details, or nil if there is no start
	unfit   error         // the reason why the kind was left out
	totals  query.Totals
}

// Columns names the values of Operation.Details. The first By of them belong to the pairing's By. Key is the pairing's
// key, or the name of the start's first argument.
type Columns struct {
	Names []string
	By    int
	Key   string
}

// Plan selects the operations that are paired, and the values that are kept.
type Plan struct {
	query.Pairing
	// TextSize is the number of bytes of a string in Operation.Details that are kept, or 0 for the kernel's limit.
	TextSize int
	// All also returns operations that do not meet the conditions.
	All bool
	// Unfit, if it is not nil, counts the sides of kinds that are left out because a side lacks variables of the plan. It is
	// an error if all kinds are left out.
	Unfit *query.Unfit
}

// pairKey identifies an open operation.
type pairKey struct {
	file *File
	pid  uint32
	kind int
	bits uint64
	text string
}

// NewPairs returns a Pairs for some probes. The first start and the first end of each kind determine which side
// evaluates each expression.
func NewPairs(plan Plan, sides []Side) (*Pairs, error) {
	p := &Pairs{
		plan: plan, sides: map[*recording.Probe]*side{}, kinds: map[int]*pairedKind{},
		open: map[pairKey]*Operation{}, room: query.MaxOpen,
	}
	for _, s := range sides {
		p.kindOf(s)
	}
	if p.first[0] == nil || p.first[1] == nil {
		return nil, fmt.Errorf("%w: both the start and the end must exist", query.ErrNothing)
	}
	for _, s := range sides {
		if err := p.AddSide(s); err != nil && plan.Unfit == nil {
			return nil, err
		} else if err != nil {
			p.kinds[s.Kind].unfit = err
		}
	}
	if !slices.ContainsFunc(sides, func(s Side) bool { return !p.Unfit(s.Kind) }) {
		return nil, p.kinds[sides[0].Kind].unfit
	}
	for _, s := range sides {
		if err := p.kinds[s.Kind].unfit; err != nil {
			p.Ignore(s.Probe)
			plan.Unfit.Add(err)
		}
	}
	return p, nil
}

// kindOf returns the kind of a side, and creates it for the first side.
func (p *Pairs) kindOf(s Side) *pairedKind {
	k := p.kinds[s.Kind]
	if k == nil {
		k = &pairedKind{}
		p.kinds[s.Kind] = k
	}
	which := 1
	if s.IsStart {
		which = 0
	}
	if k.first[which] == nil {
		k.first[which] = NewEvaluator(s.Probe)
	}
	p.first[which] = cmp.Or(p.first[which], k.first[which])
	if s.IsStart && k.columns == nil {
		k.columns = p.columns(k.first[which])
	}
	return k
}

// Knows reports whether a probe was added, or left out.
func (p *Pairs) Knows(probe *recording.Probe) bool {
	_, known := p.sides[probe]
	return known
}

// Unfit reports whether a kind was left out.
func (p *Pairs) Unfit(kind int) bool { return p.kinds[kind].unfit != nil }

// Ignore leaves out a probe.
func (p *Pairs) Ignore(probe *recording.Probe) { p.sides[probe] = nil }

// AddSide adds a side.
func (p *Pairs) AddSide(of Side) error {
	k := p.kindOf(of)
	s := &side{Evaluator: NewEvaluator(of.Probe), Side: of, kind: k}
	if err := s.parse(p, cmp.Or(k.first[0], p.first[0]), cmp.Or(k.first[1], p.first[1])); err != nil {
		return err
	}
	p.sides[of.Probe] = s
	return nil
}

// columns selects the details of a start that are kept.
func (p *Pairs) columns(start *Evaluator) *Columns {
	c := &Columns{Key: p.plan.Key}
	if args := start.probe.Args; c.Key == "arg0" && len(args) > 0 {
		c.Key = args[0].Name
	}
	if !p.plan.Details {
		return c
	}
	shown := map[string]bool{p.plan.Key: true, "parent": true}
	for _, src := range p.plan.By {
		if start.Has(src) {
			c.Names = append(c.Names, src)
			shown[src] = true
		}
	}
	c.By = len(c.Names)
	for i, a := range start.probe.Args {
		if !shown[a.Name] && !shown[fmt.Sprintf("arg%d", i)] {
			c.Names = append(c.Names, a.Name)
		}
	}
	return c
}

// Add adds an event, and returns its effect on the selected operations.
func (p *Pairs) Add(e *recording.Event, f *File) (o Outcome) {
	s := p.sides[e.Probe]
	if s == nil {
		return o
	}
	s.At(e)
	key, ok := p.keyOf(s, e)
	if !ok {
		return o
	}
	at := pairKey{f, e.PID, s.Kind, key.Bits, key.Text}
	if s.IsStart {
		started := &Operation{File: f, Kind: s.Kind, Since: e.Monotonic, PID: e.PID, TID: e.TID, Goroutine: e.Goroutine, Key: key, Columns: s.kind.columns}
		if s.parent >= 0 {
			started.Parent = e.Word(s.parent)
		}
		replaced := p.open[at]
		if p.start(s, at, started) {
			o.Started = started
		}
		o.Replaced = replaced // there is always room for it
		return o
	}
	open := p.open[at]
	if open == nil {
		s.kind.totals.Ends++
		return o
	}
	delete(p.open, at)
	o.Ended, o.HasEnded = p.end(s, e, open)
	return o
}

// end ends an operation. ok reports whether the operation is returned.
func (p *Pairs) end(s *side, e *recording.Event, open *Operation) (ended Ended, ok bool) {
	if open.selected {
		s.kind.totals.Pairs++
	}
	ended = Ended{Kind: s.Kind, Start: open, Took: e.Monotonic - open.Since, Selected: open.selected && p.matches(s)}
	if !ended.Selected {
		return ended, p.plan.All
	}
	ended.By = make([]Value, len(s.by))
	for i := range s.by {
		if s.by[i].item == nil {
			ended.By[i] = open.By[i]
			continue
		}
		v, fault := s.value(&s.by[i])
		if fault {
			p.Unevaluated++
			ended.Selected = false
			return ended, p.plan.All
		}
		ended.By[i] = v
	}
	return ended, true
}

// keyOf returns the value that pairs an event, if it is known.
func (p *Pairs) keyOf(s *side, e *recording.Event) (key Value, ok bool) {
	if s.key.expr != nil {
		key, fault := s.value(&s.key)
		if fault {
			p.Unevaluated++
		}
		return key, !fault
	}
	key = Value{Item: s.key.item, Bits: e.Goroutine}
	if p.plan.Key == query.Thread {
		key.Bits = uint64(e.TID)
	}
	if key.Bits == 0 {
		p.Unknown++
	}
	return key, key.Bits != 0
}

// start opens an operation, and reports whether it is returned. An operation that is not selected is opened too, so
// that its end is not counted as an end without a start.
func (p *Pairs) start(s *side, at pairKey, o *Operation) bool {
	if p.open[at] == nil && len(p.open) >= p.room {
		p.Full++
		return false
	}
	p.open[at] = o
	if o.selected = p.matches(s); !o.selected && !p.plan.All {
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
			return p.plan.All
		}
		o.By = append(o.By, v)
	}
	for i := range s.details {
		v, fault := s.value(&s.details[i])
		if fault {
			v = Value{}
		}
		o.Details = append(o.Details, v)
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
	if k := p.kinds[kind]; k != nil {
		return k.totals
	}
	return query.Totals{}
}

// Gone removes the probes of a recording whose process has ended, and the operations that are open
// in it.
func (p *Pairs) Gone(f *File) {
	for _, probe := range f.Recorded() {
		delete(p.sides, probe)
	}
	for at := range p.open {
		if at.file == f {
			delete(p.open, at)
		}
	}
}

// Len returns the number of open operations.
func (p *Pairs) Len() int { return len(p.open) }

// Open calls f with each open operation that is selected.
func (p *Pairs) Open(f func(*Operation)) {
	for _, o := range p.open {
		if o.selected {
			f(o)
		}
	}
}
