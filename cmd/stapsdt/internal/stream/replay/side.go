package replay

import (
	"cmp"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/event"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Side is a probe that starts or ends operations of a kind.
type Side struct {
	Probe   *recording.Probe
	Kind    int
	IsStart bool
}

// side holds the expressions that are evaluated for the events of a Side.
type side struct {
	*Evaluator
	Side
	key     evaluation
	where   []*expr.Expr
	both    []*expr.Expr // of a start: the conditions that it could evaluate, and the end does
	late    bool         // of a start: only the end can evaluate a condition
	by      []evaluation // entries have no expression if the other side evaluates it
	details []evaluation
	kind    *pairedKind
	parent  int // the index of the argument with this name, or -1
}

// evaluation is an expression or an argument, with the item that describes its values.
type evaluation struct {
	expr *expr.Expr
	arg  int
	item *event.Item // nil if this side does not evaluate it
}

// parse parses the expressions that this side evaluates.
func (s *side) parse(p *Pairs, start, end *Evaluator) error {
	s.key.item = NewItem(p.plan.Key, expr.Type{Kind: expr.Uint, Size: 8})
	if p.plan.Key != query.Goroutine && p.plan.Key != query.Thread {
		var err error
		if s.key, err = s.evaluation(p.plan.Key); err != nil {
			return err
		}
	}
	here := func(src string) (bool, error) {
		switch {
		case end.Has(src) && !p.plan.AtStart:
			return !s.IsStart, nil
		case start.Has(src):
			return s.IsStart, nil
		}
		_, err := start.Parse(src)
		if p.plan.AtStart {
			return false, expr.With(err, query.OnlyStart)
		}
		_, endErr := end.Parse(src)
		remark := "neither the start nor the end has everything that this uses"
		return false, expr.With(expr.Nearer(err, endErr), remark)
	}
	for _, src := range p.plan.Where {
		mine, err := here(src)
		if err != nil {
			return err
		}
		late := !mine && s.IsStart && !start.Has(src)
		s.late = s.late || late
		if late || !mine && !s.IsStart {
			continue
		}
		e, err := s.ParseFilter(src)
		switch {
		case err != nil:
			return err
		case mine:
			s.where = append(s.where, e)
		default:
			s.both = append(s.both, e)
		}
	}
	for _, src := range p.plan.By {
		mine, err := here(src)
		if err != nil {
			return err
		}
		one := evaluation{}
		if mine {
			if one, err = s.evaluation(src); err != nil {
				return err
			}
		}
		s.by = append(s.by, one)
	}
	if s.IsStart {
		s.detail(p)
	}
	s.parent = slices.IndexFunc(s.probe.Args, func(a recording.Arg) bool {
		return a.Name == "parent" && (a.Kind == kind.Uint64 || a.Kind == kind.Int64)
	})
	return nil
}

// detail finds the columns' values at a start.
func (s *side) detail(p *Pairs) {
	for i, name := range s.kind.columns.Names {
		one := evaluation{}
		if i < s.kind.columns.By {
			one, _ = s.evaluation(name) // empty if the start lacks it
		} else {
			for j, a := range s.probe.Args {
				if a.Name == name {
					one = evaluation{arg: j, item: NewItem(name, s.variables()[j].Type)}
					one.item.Bare = a.Bare
					one.item.TextSize = cmp.Or(p.plan.TextSize, event.TextSize)
				}
			}
		}
		s.details = append(s.details, one)
	}
}

// value evaluates an expression or an argument. fault means that the expression divides by zero.
func (s *side) value(one *evaluation) (v Value, fault bool) {
	switch {
	case one.item == nil:
		return Value{}, false
	case one.expr == nil:
		return argument(one.item, s.event, one.arg), false
	}
	return s.Value(one.expr, one.item)
}
