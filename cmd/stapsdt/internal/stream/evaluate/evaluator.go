// Package evaluate evaluates expressions for the events of probes, and formats their values.
package evaluate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Evaluator evaluates expressions for the events of a probe.
type Evaluator struct {
	probe *recording.Probe
	vars  []expr.Var // see variables
	event *recording.Event
	get   func(i int) expr.Value
	// Took is the value of the variable elapsed, if NewEnd made the evaluator.
	Took time.Duration
	end  bool
}

// NewEvaluator returns the evaluator of a probe.
func NewEvaluator(p *recording.Probe) *Evaluator {
	v := &Evaluator{probe: p}
	v.get = func(i int) expr.Value {
		if i < len(p.Args) && v.variables()[i].Type.IsInteger() { // most variables are
			return expr.UintValue(v.event.Integer(i))
		}
		return Variable(v.event, i)
	}
	return v
}

// NewEnd is NewEvaluator for the end of operations: it has the time since the start too, unless an
// argument has its name.
func NewEnd(p *recording.Probe) *Evaluator {
	v := NewEvaluator(p)
	v.end = true
	own := v.get
	v.get = func(i int) expr.Value {
		if i == len(v.variables())-1 {
			return expr.IntValue(int64(v.Took))
		}
		return own(i)
	}
	return v
}

// variables returns the variables of the probe. They are made for the first expression, because a
// command may have thousands of probes and no expression.
func (v *Evaluator) variables() []expr.Var {
	if v.vars == nil {
		v.vars = Variables(v.probe)
		if v.end {
			v.vars = append(v.vars, expr.Var{Name: query.ElapsedName, Type: query.Elapsed})
		}
	}
	return v.vars
}

// At sets the event for which expressions are evaluated.
func (v *Evaluator) At(e *recording.Event) { v.event = e }

// Parse parses an expression. The error names the probe.
func (v *Evaluator) Parse(src string) (*expr.Expr, error) {
	return v.named(expr.Parse(src, v.variables()))
}

// ParseFilter is Parse for a condition.
func (v *Evaluator) ParseFilter(src string) (*expr.Expr, error) {
	return v.named(expr.ParseFilter(src, v.variables()))
}

// ParseInteger is Parse for an integer expression. what names its user in the error, such as "a histogram".
func (v *Evaluator) ParseInteger(src, what string) (*expr.Expr, error) {
	return v.named(expr.ParseInteger(src, v.variables(), what))
}

// Item parses an expression, and returns it with the description of its values. An expression that
// is only an argument is shown like the argument.
func (v *Evaluator) Item(src string) (*expr.Expr, *value.Item, error) {
	e, err := v.Parse(src)
	if err != nil {
		return nil, nil, err
	}
	item := NewItem(src, e.Type())
	if i := v.argOf(e.Root); i >= 0 {
		item.Bare = v.probe.Args[i].Bare
	}
	return e, item, nil
}

func (v *Evaluator) named(e *expr.Expr, err error) (*expr.Expr, error) {
	if err != nil {
		v.explainUnsure(err)
		err = query.ExplainStart(err, v.probe.Provider, v.probe.Name)
		return nil, fmt.Errorf("%s:%s: %w", v.probe.Provider, v.probe.Name, err)
	}
	return e, nil
}

// explainUnsure adds to an error that an expression uses a variable of a line that may be old.
func (v *Evaluator) explainUnsure(err error) {
	var wrong *expr.Error
	if name := query.Undefined(err); name != "" && errors.As(err, &wrong) {
		isIt := func(a recording.Arg) bool { return a.Name == value.Unsure(name) }
		if slices.ContainsFunc(v.probe.Args, isIt) {
			wrong.Msg = fmt.Sprintf("%s may be old there: %s accepts that", name, value.Unsure(name))
		}
	}
}

// Has reports whether the probe has all variables of an expression.
func (v *Evaluator) Has(src string) bool {
	_, err := expr.Parse(src, v.variables())
	return err == nil
}

// Eval evaluates an expression of any type. fault means that it divides by zero, or depends on what
// is unknown: an argument that could not be read, or the end of a text that was cut.
func (v *Evaluator) Eval(e *expr.Expr) (value expr.Value, fault bool) {
	if bits, ok := v.ofWord(e); ok {
		return expr.UintValue(bits), false
	}
	if v.isUnknown(e) {
		return value, true
	}
	return e.Eval(v.get)
}

// ofWord evaluates an expression whose only variable is an integer argument.
func (v *Evaluator) ofWord(e *expr.Expr) (bits uint64, ok bool) {
	i, args := e.Variable(), len(v.probe.Args)
	if i < 0 || i >= 2*args || v.event.Cut|v.event.Unreadable != 0 {
		return 0, false
	}
	if i >= args {
		i -= args
	}
	return e.OfWord(v.event.Integer(i)), true
}

func (v *Evaluator) isUnknown(e *expr.Expr) bool {
	return v.event.Cut|v.event.Unreadable != 0 && v.needsUnknown(e.Root)
}

// needsUnknown reports whether a part of an expression depends on what is unknown.
func (v *Evaluator) needsUnknown(n *expr.Node) bool {
	switch {
	case n == nil:
		return false
	case n.Op == expr.Load:
		return v.isIn(v.event.Unreadable, n)
	case n.Op == expr.And, n.Op == expr.Or: // Y is not always evaluated
		x, fault := (&expr.Expr{Root: n.X}).Eval(v.get)
		return v.needsUnknown(n.X) ||
			!fault && x.Bool() == (n.Op == expr.And) && v.needsUnknown(n.Y)
	case !v.isCut(n.X) && !v.isCut(n.Y):
		return v.needsUnknown(n.X) || v.needsUnknown(n.Y)
	case n.Op == expr.Len, n.Op == expr.HasSuffix, n.Op == expr.Contains:
		return true
	}
	cut, other := n.X, n.Y
	if !v.isCut(cut) {
		cut, other = other, cut
	}
	// What is left of the text decides, unless the constant begins with all of it.
	left := v.get(cut.Var).Text()
	return other.Op != expr.Const || strings.HasPrefix(other.Value.Text(), left)
}

// IsCut reports whether an expression is a text that was cut.
func (v *Evaluator) IsCut(e *expr.Expr) bool { return v.isCut(e.Root) }

func (v *Evaluator) isCut(n *expr.Node) bool {
	return n != nil && v.isIn(v.event.Cut, n)
}

// isIn reports whether a part of an expression is an argument in a set.
func (v *Evaluator) isIn(set uint64, n *expr.Node) bool {
	i := v.argOf(n)
	return i >= 0 && set>>i&1 != 0
}

// Bool is Eval for a condition. match is false after a fault.
func (v *Evaluator) Bool(e *expr.Expr) (match, fault bool) {
	if bits, ok := v.ofWord(e); ok {
		return bits != 0, false
	}
	if v.isUnknown(e) {
		return false, true
	}
	return e.Bool(v.get)
}

// argOf returns the index of the argument that a part of an expression is, or -1 if it is none.
func (v *Evaluator) argOf(n *expr.Node) int {
	args := len(v.probe.Args)
	if n.Op != expr.Load || n.Var >= 2*args {
		return -1
	}
	return n.Var % args
}

// Number is Eval for an integer expression. It returns the bits of the value.
func (v *Evaluator) Number(e *expr.Expr) (bits uint64, fault bool) {
	value, fault := v.Eval(e)
	return value.Uint(), fault
}

// Value is Eval for an expression whose values an item describes. If it is only an argument that
// could not be read, there is no fault, but the value is Missing.
func (v *Evaluator) Value(e *expr.Expr, item *value.Item) (value Value, fault bool) {
	i := v.argOf(e.Root)
	if unreadable := i >= 0 && v.event.Unreadable>>i&1 != 0; unreadable ||
		i >= 0 && item.Type.IsInteger() { // most values are
		return v.Arg(item, i), false
	}
	one, fault := v.Eval(e)
	if fault {
		return value, true
	}
	return newValue(item, one), false
}

// Arg returns the i-th argument, which an item describes.
func (v *Evaluator) Arg(item *value.Item, i int) Value { return argument(item, v.event, i) }

// SetArg is Arg for a value that may have held another before. It keeps the memory of an equal
// text.
func (v *Evaluator) SetArg(to *Value, item *value.Item, i int) { to.setArgument(item, v.event, i) }

// NewItem describes the values of an expression.
func NewItem(src string, t expr.Type) *value.Item {
	return &value.Item{Name: src, Type: t, TextSize: value.TextSize}
}

// TextSize is the number of bytes of a string of an event that are shown, unless a command has
// another limit.
const TextSize = 256

// Unevaluated warns of events that were left out because their expressions could not be evaluated.
func Unevaluated(to *console.Console, n uint64) {
	if n > 0 {
		to.Warn("%d events are not included, because an expression divided by zero, shifted by a negative count, or needed what could not be read, or the end of a text that was cut", n)
	}
}
