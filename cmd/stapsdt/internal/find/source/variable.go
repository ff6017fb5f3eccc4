//go:build linux

package source

import (
	"errors"
	"strings"
)

// Variable is a variable in whose scope an address is.
type Variable struct {
	// Name is its name, as the compiler has it: an ampersand is before that of a variable on the
	// heap, whose address is described.
	Name string
	// Type is the offset of its type in .debug_info.
	Type uint64
	// Line is the line of its declaration, or of the use of a captured one, or 0.
	Line int
	// Scope numbers the function or the block that declares it. One that is in another has a larger
	// number.
	Scope int
	// Parameter means that it is a parameter or a result, Result that it is a result, and Captured
	// that it is declared by the function that contains the function literal.
	Parameter, Result, Captured bool
	// Location is its place at the address, or nil if it has none there. Ever means that it has one
	// at some address.
	Location *Location
	Ever     bool
}

// ErrVariables means that the description of the variables is damaged, or is more than may be read.
var ErrVariables = errors.New("its DWARF of variables is damaged or too large")

// Variables returns the variables of the innermost function at an address, those of the outermost
// scope first. optimized is false if the compiler keeps all of them in memory, as with -gcflags=-N.
func (t *Table) Variables(pc uint64) (all []Variable, optimized bool, err error) {
	if err := t.index(); err != nil {
		return nil, false, known(err)
	}
	for _, u := range t.code.at(pc) {
		c, err := t.load(u)
		if err != nil {
			return nil, false, known(err)
		}
		for _, at := range c.functions.at(pc) {
			v := variables{Table: t, code: c, pc: pc}
			if err := t.walk(c, c.b[at:], isScoped, v.visit); err != nil {
				return nil, false, known(err)
			}
			optimized, err := t.isOptimized(u)
			return v.all, optimized, known(err)
		}
	}
	return nil, false, nil
}

// isOptimized reports whether the compiler has optimized a unit, which it does unless its flag -N
// is given.
func (t *Table) isOptimized(u *unit) (bool, error) {
	all, err := t.abbrevsOf(u, 0)
	if err != nil {
		return true, err
	}
	var e entry
	if err := t.readAt(u, all, u.entry, &e); err != nil || !e.has(slotProducer) {
		return true, err
	}
	producer, err := t.text(u, e.values[slotProducer])
	return !strings.Contains(producer, "; -N"), err
}

// known returns ErrVariables for an error that is due to the contents of the file.
func known(err error) error {
	if err != nil && failure(err) == nil {
		return ErrVariables
	}
	return err
}

// variables finds the variables at an address.
type variables struct {
	*Table
	code *code
	pc   uint64
	all  []Variable
	// scopes are the functions and blocks that contain the entry that is visited. function is the
	// number of the innermost function with the address.
	scopes           []scope
	number, function int
}

// scope is a function or a block.
type scope struct {
	depth            int
	contains         bool // the address
	number, function int  // of it, and of the function that it is or is in
}

func isScoped(tag uint64) bool {
	return isCode(tag) || tag == tagBlock || tag == tagParameter || tag == tagVariable
}

// visit implements the argument of walk.
func (v *variables) visit(_, depth int, e *entry) (more bool, err error) {
	for len(v.scopes) > 0 && v.scopes[len(v.scopes)-1].depth >= depth {
		v.scopes = v.scopes[:len(v.scopes)-1]
	}
	if depth == 0 {
		v.scopes = append(v.scopes, scope{contains: true})
		return e.children, nil
	}
	in := v.scopes[len(v.scopes)-1]
	if in.depth != depth-1 {
		return true, nil // it is in an entry of another kind
	}
	switch e.tag {
	case tagInlined, tagBlock:
		v.number++
		s := scope{depth: depth, number: v.number, function: in.function}
		if in.contains {
			err = v.rangesOf(v.code.unit, e, func(start, end uint64) {
				s.contains = s.contains || start <= v.pc && v.pc < end
			})
		}
		if e.tag == tagInlined && s.contains {
			s.function, v.function, v.all = v.number, v.number, nil
		}
		v.scopes = append(v.scopes, s)
	case tagParameter, tagVariable:
		if in.contains && in.function == v.function {
			err = v.add(e, in.number)
		}
	}
	return true, err
}

// add adds a variable. Those of functions that are inlined, or have been inlined elsewhere, are
// described by another entry.
func (v *variables) add(e *entry, in int) error {
	u, described := v.code.unit, e
	if e.has(slotOrigin) {
		var err error
		if u, described, err = v.follow(u, e.values[slotOrigin]); err != nil {
			return err
		}
	}
	if !described.has(slotName) || !described.has(slotType) {
		return nil
	}
	name, err := v.text(u, described.values[slotName])
	if err != nil {
		return err
	}
	one := Variable{
		Name: name, Type: described.values[slotType].n, Line: int(described.values[slotLine].n),
		Scope: in, Parameter: e.tag == tagParameter, Result: described.values[slotResult].n != 0,
		Captured: e.has(slotCaptured) || described.has(slotCaptured),
	}
	if described.values[slotType].form != formRefAddr {
		one.Type += u.offset
	}
	one.Location, one.Ever, err = v.location(v.code.unit, e.values[slotLocation], v.pc)
	if err == nil {
		err = v.budget.spend(frameWork)
	}
	v.all = append(v.all, one)
	return err
}
