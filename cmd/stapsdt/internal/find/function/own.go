//go:build linux

package function

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/source"
)

// ownStatement is the statement that declares a variable, with the functions that are inlined in
// it.
type ownStatement struct {
	all map[int]bool // its instructions
	// before are the instructions that can be executed before any of it, and during those from
	// which it can go on: it has not been executed to its end there.
	before, during []bool
}

// fixed returns the instructions behind which a variable has its value, if it has a fixed place.
func (o *ownStatement) fixed(v *source.Variable) map[int]bool {
	if v.Location.Fixed {
		return o.all
	}
	return nil
}

// lineRange are lines of an inlined call.
type lineRange struct {
	call        int32
	first, last int
}

// ownOf returns the statement that declares a variable.
func (s *statementReader) ownOf(v *source.Variable, name string) *ownStatement {
	in := lineRange{s.in.Call, v.Line, v.Line}
	if s.sourceErr == nil && !v.Captured {
		d := s.declaration(v, name)
		in.first, in.last = d.First, d.Last
	}
	if s.owns[in] == nil {
		s.owns[in] = s.newOwn(in)
	}
	return s.owns[in]
}

func (v *variableReader) newOwn(in lineRange) *ownStatement {
	o := &ownStatement{all: map[int]bool{}}
	for i := range v.actions {
		if v.actions[i].in.In(in.call, in.first, in.last) {
			o.all[i] = true
		}
	}
	n := len(v.actions)
	o.before, o.during = make([]bool, n), make([]bool, n)
	v.body.after(entry, o.all, func(i int) bool {
		o.before[i] = true
		return true
	})
	var rest []int // those that follow other instructions of the statement
	for i := range o.all {
		if !o.before[i] {
			rest = append(rest, i)
		}
	}
	v.body.leading(rest, func(i int) (more bool) {
		o.during[i] = true
		return !o.all[i] || !o.before[i]
	})
	return o
}
