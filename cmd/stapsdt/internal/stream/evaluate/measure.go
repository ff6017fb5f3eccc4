package evaluate

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Measure evaluates for the events of a probe what a bpf.Aggregate evaluates in the kernel: a
// condition, the values by which events are counted, and the value that is summed.
type Measure struct {
	// Values are the values of By for the event of the last Take, and Bits is its value to sum,
	// which has the type Type.
	Values []Value
	Bits   uint64
	Type   expr.Type

	*Evaluator
	where, value *expr.Expr // or nil
	arg          int        // the index of the argument that value is, or -1
	by           []*expr.Expr
	rises        bool
}

// NewMeasure parses the expressions for a probe. Its errors name the probe.
func NewMeasure(p *recording.Probe, c query.Counting) (m *Measure, err error) {
	m = &Measure{Evaluator: NewEvaluator(p), Values: make([]Value, len(c.By)), rises: c.Rises}
	if c.Where != "" {
		if m.where, err = m.ParseFilter(c.Where); err != nil {
			return nil, err
		}
	}
	for _, src := range c.By {
		one, item, err := m.Item(src)
		if err != nil {
			return nil, err
		}
		m.Values[len(m.by)].Item = item
		m.by = append(m.by, one)
	}
	if c.Value != "" {
		if m.value, err = m.ParseInteger(c.Value, c.For); err != nil {
			return nil, err
		}
		m.Type, m.arg = m.value.Type(), m.argOf(m.value.Root)
		if c.Buckets != nil {
			if err := c.Buckets.Fits(m.Type); err != nil {
				return nil, fmt.Errorf("%s:%s: %w", p.Provider, p.Name, err)
			}
		}
	}
	return m, nil
}

// Take evaluates the expressions for an event. It reports whether the event counts, and if not,
// whether an expression could not be evaluated.
func (m *Measure) Take(e *recording.Event) (counts, fault bool) {
	m.At(e)
	if m.where != nil {
		if match, fault := m.Bool(m.where); !match {
			return false, fault
		}
	}
	if m.value != nil {
		if m.arg >= 0 { // most values are
			m.Bits = e.Integer(m.arg)
		} else {
			m.Bits, fault = m.Number(m.value)
		}
		if fault || m.rises && m.Type.Kind == expr.Int && int64(m.Bits) < 0 {
			return false, true
		}
	}
	for i := range m.by {
		if !m.takeBy(m.by[i], &m.Values[i]) {
			return false, true
		}
	}
	return true, false
}

// takeBy sets one of Values, and reports whether it could be evaluated.
func (m *Measure) takeBy(by *expr.Expr, v *Value) bool {
	if bits, ok := m.ofWord(by); ok {
		v.Bits = bits // of an integer or a bool
		return true
	}
	one, fault := m.Eval(by)
	switch {
	case fault:
	case v.Item.Type.Kind == expr.String:
		*v = newValue(v.Item, one)
	default: // nothing else changes from one event to the next
		v.Bits = Bits(v.Item.Type, one)
	}
	return !fault
}
