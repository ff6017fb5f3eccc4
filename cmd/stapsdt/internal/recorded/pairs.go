//go:build linux

package recorded

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Pairs pairs the events of two probes, the starts of operations and their ends, as the kernel does.
type Pairs struct {
	pairing bpf.Pairing
	sides   map[*recording.Probe]*side
	open    map[pairKey]*Operation
	totals  map[int]*Totals // by kind
	// Columns are the names of Operation.Details. The first By of them are of the pairing's By.
	Columns []string
	By      int
	// KeyName is the name that the start has for its first argument.
	KeyName string
	// Full is the number of starts for which there was no room, Unknown that of events of which the
	// recording does not say what pairs them, and Unevaluated that of events with an expression
	// that divides by zero.
	Full, Unknown, Unevaluated uint64
}

// Totals are the numbers of a kind of operation: of its starts, of those that have found their end, and
// of ends without a start.
type Totals struct{ Starts, Pairs, Ends uint64 }

// Operation is one that has started and not ended.
type Operation struct {
	File  *File
	Kind  int
	Since time.Duration // by CLOCK_MONOTONIC
	// PID is the process of the start, and either TID or Goroutine is not 0.
	PID, TID  uint32
	Goroutine uint64
	Key       Value
	Details   []Value

	// By are the values of the pairing's that were evaluated at the start.
	By []Value

	selected bool
}

// For returns how long an operation has been open when its recording ends.
func (o *Operation) For() time.Duration { return max(o.File.Last()-o.Since, 0) }

// Ended is an operation that has ended. By are the values of the pairing's.
type Ended struct {
	Kind int
	Took time.Duration
	By   []Value
}

// Elapsed is the type of the time that an operation took.
var Elapsed = expr.Type{Kind: expr.Int, Size: 8, Duration: true}

// pairKey identifies an operation that is open.
type pairKey struct {
	file *File
	pid  uint32
	kind int
	bits uint64
	text string
}

// Side is a probe that starts operations of a kind, or ends them.
type Side struct {
	Probe   *recording.Probe
	Kind    int
	IsStart bool
}

// side is what is evaluated for the events of a Side.
type side struct {
	*Evaluator
	Side
	key     evaluated
	where   []*expr.Expr
	by      []evaluated // without an expression if the other side evaluates it
	details []evaluated
}

// evaluated is an expression, or an argument, and what describes its values.
type evaluated struct {
	expr *expr.Expr
	arg  int
	item *record.Item // nil if the probe does not have it
}

// NewPairs returns what pairs the events of these probes. It decides by the first start and the first
// end which expressions are evaluated where.
func NewPairs(pairing bpf.Pairing, sides []Side) (*Pairs, error) {
	p := &Pairs{pairing: pairing, sides: map[*recording.Probe]*side{}, open: map[pairKey]*Operation{}, totals: map[int]*Totals{}}
	var first [2]*Evaluator // a start and an end
	for _, s := range sides {
		which := 1
		if s.IsStart {
			which = 0
		}
		v := NewEvaluator(s.Probe)
		if first[which] == nil {
			first[which] = v
		}
		p.sides[s.Probe] = &side{Evaluator: v, Side: s}
	}
	if first[0] == nil || first[1] == nil {
		return nil, errors.New("the recordings do not have the probes of both the start and the end")
	}
	if args := first[0].probe.Args; len(args) > 0 {
		p.KeyName = args[0].Name
	}
	p.columns(first[0])
	for _, s := range p.sides {
		if err := s.parse(p, first[0], first[1]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// columns decides which details of a start are kept.
func (p *Pairs) columns(start *Evaluator) {
	if !p.pairing.Details {
		return
	}
	shown := map[string]bool{p.pairing.Key: true, "parent": true}
	for _, src := range p.pairing.By {
		if start.Has(src) {
			p.Columns = append(p.Columns, src)
			shown[src] = true
		}
	}
	p.By = len(p.Columns)
	for i, a := range start.probe.Args {
		if !shown[a.Name] && !shown[fmt.Sprintf("arg%d", i)] {
			p.Columns = append(p.Columns, a.Name)
		}
	}
}

// parse parses what is evaluated at this side.
func (s *side) parse(p *Pairs, start, end *Evaluator) error {
	s.key.item = NewItem(p.pairing.Key, expr.Type{Kind: expr.Uint, Size: 8})
	if p.pairing.Key != bpf.Goroutine && p.pairing.Key != bpf.Thread {
		e, err := s.Parse(p.pairing.Key)
		if err != nil {
			return err
		}
		s.key = evaluated{expr: e, item: NewItem(p.pairing.Key, e.Type())}
	}
	here := func(src string) (bool, error) {
		switch {
		case end.Has(src) && !p.pairing.AtStart:
			return !s.IsStart, nil
		case start.Has(src):
			return s.IsStart, nil
		}
		_, err := start.Parse(src)
		return false, fmt.Errorf("%w (the end has not all that this asks for either)", err)
	}
	for _, src := range p.pairing.Where {
		mine, err := here(src)
		if err != nil {
			return err
		}
		if mine {
			e, err := s.ParseFilter(src)
			if err != nil {
				return err
			}
			s.where = append(s.where, e)
		}
	}
	for _, src := range p.pairing.By {
		mine, err := here(src)
		if err != nil {
			return err
		}
		one := evaluated{}
		if mine {
			if one.expr, err = s.Parse(src); err != nil {
				return err
			}
			one.item = NewItem(src, one.expr.Type())
		}
		s.by = append(s.by, one)
	}
	if s.IsStart {
		s.detail(p)
	}
	return nil
}

// detail finds what a start has of the columns.
func (s *side) detail(p *Pairs) {
	for i, name := range p.Columns {
		one := evaluated{}
		if i < p.By {
			if e, err := s.Parse(name); err == nil {
				one = evaluated{expr: e, item: NewItem(name, e.Type())}
			}
		} else {
			for j, a := range s.probe.Args {
				if a.Name == name {
					one = evaluated{arg: j, item: NewItem(name, s.vars[j].Type)}
				}
			}
		}
		s.details = append(s.details, one)
	}
}

// value evaluates. fault means that an expression divides by zero.
func (s *side) value(one *evaluated) (v Value, fault bool) {
	switch {
	case one.item == nil:
		return Value{}, false
	case one.expr == nil:
		return s.Arg(one.arg, one.item), false
	}
	return s.Value(one.expr, one.item)
}

// Add adds an event. It returns the operation that has ended with it, if there is one that is selected.
func (p *Pairs) Add(e *recording.Event, f *File) (ended Ended, ok bool) {
	s := p.sides[e.Probe]
	if s == nil {
		return ended, false
	}
	s.At(e)
	key, ok := p.keyOf(s, e)
	if !ok {
		return ended, false
	}
	totals := p.totals[s.Kind]
	if totals == nil {
		totals = &Totals{}
		p.totals[s.Kind] = totals
	}
	at := pairKey{f, e.PID, s.Kind, key.Bits, key.Text}
	if s.IsStart {
		p.start(s, e, at, &Operation{File: f, Kind: s.Kind, Since: e.Monotonic, PID: e.PID, TID: e.TID, Goroutine: e.Goroutine, Key: key}, totals)
		return ended, false
	}
	open := p.open[at]
	if open == nil {
		totals.Ends++
		return ended, false
	}
	delete(p.open, at)
	if !open.selected {
		return ended, false
	}
	totals.Pairs++
	if !p.matches(s) {
		return ended, false
	}
	ended = Ended{Kind: s.Kind, Took: e.Monotonic - open.Since, By: make([]Value, len(s.by))}
	for i := range s.by {
		if s.by[i].item == nil {
			ended.By[i] = open.By[i]
			continue
		}
		v, fault := s.value(&s.by[i])
		if fault {
			p.Unevaluated++
			return Ended{}, false
		}
		ended.By[i] = v
	}
	return ended, true
}

// keyOf returns what pairs an event, if it is known.
func (p *Pairs) keyOf(s *side, e *recording.Event) (key Value, ok bool) {
	if s.key.expr != nil {
		key, fault := s.value(&s.key)
		if fault {
			p.Unevaluated++
		}
		return key, !fault
	}
	key = Value{Item: s.key.item, Bits: e.Goroutine}
	if p.pairing.Key == bpf.Thread {
		key.Bits = uint64(e.TID)
	}
	if key.Bits == 0 {
		p.Unknown++
	}
	return key, key.Bits != 0
}

// start opens an operation. One that is not selected is open all the same, so that its end is not one
// without a start.
func (p *Pairs) start(s *side, e *recording.Event, at pairKey, o *Operation, totals *Totals) {
	if p.open[at] == nil && len(p.open) == bpf.MaxOpen {
		p.Full++
		return
	}
	p.open[at] = o
	if o.selected = p.matches(s); !o.selected {
		return
	}
	for i := range s.by {
		v, fault := s.value(&s.by[i])
		if fault {
			p.Unevaluated++
			o.selected = false
			return
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
	totals.Starts++
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

// Totals returns the numbers of a kind of operation.
func (p *Pairs) Totals(kind int) Totals {
	if t := p.totals[kind]; t != nil {
		return *t
	}
	return Totals{}
}

// Open calls f with each operation that is open and selected.
func (p *Pairs) Open(f func(*Operation)) {
	for _, o := range p.open {
		if o.selected {
			f(o)
		}
	}
}
