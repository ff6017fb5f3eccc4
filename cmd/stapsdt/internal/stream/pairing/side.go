package pairing

import (
	"cmp"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Side is a probe that starts or ends operations of a kind.
type Side struct {
	Probe   *recording.Probe
	Kind    int // its number
	IsStart bool
}

// side holds the expressions that are evaluated for the events of a Side.
type side struct {
	*evaluate.Evaluator
	Side
	kind    *Kind
	key     []evaluation // goroutine and thread have no expression
	where   []*expr.Expr
	both    []*expr.Expr // of a start: the conditions that it could evaluate, and the end does
	late    bool         // of a start: only the end can evaluate a condition
	by      []evaluation // entries have no expression if the other side evaluates it
	details []evaluation
	parent  int // the index of the argument with this name, or -1
	known   int // see count
}

// which returns the index of the side in a pair of sides.
func (s *side) which() int {
	if s.IsStart {
		return 0
	}
	return 1
}

// count sets known, the number of the expressions whose variables the side has.
func (s *side) count(all []string) {
	for _, src := range all {
		if s.Has(src) {
			s.known++
		}
	}
}

// evaluation is an expression or an argument, with the item that describes its values.
type evaluation struct {
	expr *expr.Expr
	arg  int
	item *value.Item // nil if this side does not evaluate it
}

// evaluation parses an expression, and returns it with the item that describes its values.
func (s *side) evaluation(src string) (evaluation, error) {
	e, item, err := s.Item(src)
	return evaluation{expr: e, item: item}, err
}

// parse parses the expressions that this side evaluates. start and end decide which those are.
func (s *side) parse(start, end *side) (err error) {
	plan := s.kind.plan
	s.where, s.both, s.by, s.details, s.late = nil, nil, nil, nil, false
	if err := s.parseKey(start); err != nil {
		return err
	}
	for _, src := range plan.Where {
		if err := s.condition(src, start, end); err != nil {
			return err
		}
	}
	for _, src := range plan.By {
		mine, err := s.evaluates(src, start, end)
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
		s.detail()
	}
	s.parent = slices.IndexFunc(s.Probe.Args, func(a recording.Arg) bool {
		return a.Name == "parent" && (a.Kind == kind.Uint64 || a.Kind == kind.Int64)
	})
	return nil
}

// evaluates reports whether this side evaluates an expression, and not the other one.
func (s *side) evaluates(src string, start, end *side) (bool, error) {
	atStart := s.kind.plan.AtStart
	switch {
	case end.Has(src) && !atStart:
		return !s.IsStart, nil
	case start.Has(src):
		return s.IsStart, nil
	}
	_, err := start.Parse(src)
	if atStart {
		return false, expr.With(err, query.OnlyStart)
	}
	_, endErr := end.Parse(src)
	remark := "neither the start nor the end has everything that this uses"
	return false, expr.With(expr.Nearer(err, endErr), remark)
}

// condition parses a condition, if this side evaluates it or could.
func (s *side) condition(src string, start, end *side) error {
	mine, err := s.evaluates(src, start, end)
	if err != nil {
		return err
	}
	late := !mine && s.IsStart && !start.Has(src)
	s.late = s.late || late
	if late || !mine && !s.IsStart {
		return nil
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
	return nil
}

// detail finds the columns' values at a start.
func (s *side) detail() {
	columns := s.kind.details()
	args := evaluate.ArgItems(s.Probe, cmp.Or(s.kind.plan.TextSize, value.TextSize))
	for i, name := range columns.Names {
		one := evaluation{}
		if i < columns.By {
			one, _ = s.evaluation(name) // empty if the start lacks it
		} else {
			for j := range args {
				if args[j].Name == name {
					one = evaluation{arg: j, item: &args[j]}
				}
			}
		}
		s.details = append(s.details, one)
	}
}

// value evaluates an expression or an argument. fault means that the expression divides by zero.
func (s *side) value(one *evaluation) (v evaluate.Value, fault bool) {
	switch {
	case one.item == nil:
		return evaluate.Value{}, false
	case one.expr == nil:
		return s.Arg(one.item, one.arg), false
	}
	return s.Value(one.expr, one.item)
}
