//go:build linux

package function

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gosource"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/source"
)

// Variable is a variable of the function that has a statement.
type Variable struct {
	Name, Type string
	// Err is the reason why it is not read, or nil. A part that is not read is a Variable, too.
	Err error
	// Unsure is the reason why its value may be old, or nil: the compiler may keep a new one
	// elsewhere. The names of its arguments are those of value.Unsure.
	Unsure error
}

// Source returns the source of a file of the program, by the path that its DWARF has.
type Source func(path string) (*gosource.File, error)

var (
	errNoSource   = errors.New("its source was not found")
	errLater      = errors.New("declared at this line or later")
	errBegins     = errors.New("the function has not set it yet")
	errTwice      = errors.New("two variables of this name in an inlined function")
	errMoved      = errors.New("the compiler may have moved the statement")
	errReassigned = errors.New("reassigned")
	errLoop       = errors.New("a variable of a loop")
	errMethod     = errors.New("a method may change it")
	errResult     = errors.New("a result")
	errUnfit      = errors.New("the source does not fit the program")
)

// describeStatements sets the variables of statements as their arguments.
func (p *Program) describeStatements(fns []*Function) {
	v := &variableReader{Program: p, work: flowWork}
	use := func(f *elf.File) {
		if v.table = source.New(f, source.NewBudgetFor(maxDWARF)); v.table == nil {
			return
		}
		for _, fn := range fns {
			fn.ArgsErr = v.read(fn)
		}
	}
	switch {
	case p.debug.err != nil:
		v.fail(fns, p.debug.err)
	case !p.debug.separate:
		use(p.file)
	default:
		if err := p.separate(p.file, use); err != nil {
			v.fail(fns, err)
		}
	}
}

// variableReader reads the variables of statements.
type variableReader struct {
	*Program
	table *source.Table
	work  int
	// body is that of the last statement, and actions are its instructions.
	body    *body
	actions []action
	owns    map[lineRange]*ownStatement
	// methods are the names of methods, and whether they have receivers that are no pointers.
	methods map[string]bool
}

func (v *variableReader) fail(fns []*Function, err error) {
	for _, fn := range fns {
		fn.ArgsErr = err
	}
}

// read sets the variables of a statement.
func (v *variableReader) read(fn *Function) error {
	in, ok := v.Program.table.At(fn.Entry)
	if !ok {
		return errDecode
	}
	all, optimized, err := v.table.Variables(fn.Entry)
	if err != nil {
		return err
	}
	if v.body == nil || v.body.entry != in.Entry {
		if v.body, err = v.bodyOf(&in, &v.work); err != nil {
			return err
		}
		v.actions, v.owns = v.actionsOf(v.body, in.Frame), map[lineRange]*ownStatement{}
	}
	s := &statementReader{
		variableReader: v, fn: fn, in: &in, frame: v.frame(in.Stack), optimized: optimized,
		reader: &reader{abi: abis[v.file.Machine], errors: v.errorTypes()},
	}
	s.declarations(all)
	s.variables(all)
	fn.Args, fn.Fields = s.args, s.fields
	return nil
}

// frame returns the canonical frame address, from the stack pointer, where a function has put a
// number of bytes on the stack.
func (p *Program) frame(stack int32) int64 {
	if p.file.Machine == elf.EM_X86_64 {
		return int64(stack) + wordSize
	}
	return int64(stack)
}

// shownName returns the name of a variable in the source, or "" if it has none there.
func shownName(v *source.Variable) string {
	name := strings.TrimPrefix(v.Name, "&")
	if name == "_" || strings.ContainsAny(name, ".~#") {
		return ""
	}
	return name
}

// statementReader reads the variables of one statement.
type statementReader struct {
	*variableReader
	*reader
	fn    *Function
	in    *gotable.Address
	frame int64
	// optimized is false if the place of each variable is in memory and its own, and has all that
	// the statements before have assigned.
	optimized bool
	// source has the declarations of the variables, or sourceErr is the reason why they are
	// unknown.
	source    *gosource.File
	sourceErr error
}

// declarations finds the source. It fits if it declares all variables where the DWARF does. Some
// are foreign: those of functions that are inlined, but not described as such.
func (s *statementReader) declarations(all []source.Variable) {
	if s.Source == nil {
		s.sourceErr = errNoSource
		return
	}
	s.source, s.sourceErr = s.Source(s.fn.File)
	if s.sourceErr != nil {
		return
	}
	if s.fn.Line > s.source.Lines() {
		s.sourceErr = errUnfit
		return
	}
	for i := range all {
		name := shownName(&all[i])
		isForeign := all[i].Line != 0 && !s.source.Contains(s.fn.Line, all[i].Line)
		if name != "" && !isForeign && s.declaration(&all[i], name) == nil {
			s.sourceErr = fmt.Errorf("%w: it declares no %s at line %d", errUnfit, name, all[i].Line)
			return
		}
	}
}

// declaration returns the declaration of a variable in the source. The parameters of a function
// that is inlined have no lines, and a variable that a function literal captures has that of its
// use.
func (s *statementReader) declaration(v *source.Variable, name string) *gosource.Declaration {
	switch {
	case v.Line == 0 && v.Parameter:
		return s.source.Parameter(name, s.fn.Line)
	case v.Captured:
		return s.source.Visible(name, v.Line)
	}
	return s.source.Find(name, v.Line)
}

// variables adds those of the variables that the source can use at the statement.
func (s *statementReader) variables(all []source.Variable) {
	last, later := map[string]*source.Variable{}, map[string]bool{}
	twice := map[string]bool{}
	var names []string
	for i := range all {
		v := &all[i]
		name := shownName(v)
		if name == "" {
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if s.isHidden(v, name) {
			continue
		}
		if s.isLater(v, name) {
			later[name] = true
			continue
		}
		twice[name] = last[name] != nil && last[name].Scope == v.Scope
		last[name] = v
	}
	for _, name := range names {
		one := Variable{Name: name}
		switch v := last[name]; {
		case v == nil && later[name]:
			one.Err = errLater
		case v == nil:
			one.Err = errNever
		case twice[name]:
			one.Err = errTwice
		default:
			before := len(s.args)
			one.Err = s.variable(v, &one)
			if one.Err == nil && len(s.args) == before && len(s.lost) > 0 {
				one.Err, s.lost = errGone, nil
			}
		}
		s.fn.Statement.Variables = append(s.fn.Statement.Variables, one)
		for _, part := range s.lost {
			lost := Variable{Name: part, Err: errGone}
			s.fn.Statement.Variables = append(s.fn.Statement.Variables, lost)
		}
		s.lost = nil
	}
	if s.sourceErr != nil {
		return
	}
	for _, name := range s.source.Names(s.fn.Line) {
		if !slices.Contains(names, name) { // the compiler does not describe it
			one := Variable{Name: name, Err: errNever}
			s.fn.Statement.Variables = append(s.fn.Statement.Variables, one)
		}
	}
}

// isLater reports whether a variable is declared by the statement, or by a later one.
func (s *statementReader) isLater(v *source.Variable, name string) bool {
	if v.Parameter || v.Captured {
		return false
	}
	end := v.Line
	if s.sourceErr == nil {
		if d := s.declaration(v, name); d != nil {
			end = d.Last
		}
	}
	return s.fn.Line <= end
}

// isHidden reports whether the name stands for another variable there. The compiler does not
// describe each variable that hides another one.
func (s *statementReader) isHidden(v *source.Variable, name string) bool {
	if s.sourceErr != nil || !s.optimized {
		return false
	}
	d := s.declaration(v, name)
	return d == nil || d != s.source.Visible(name, s.fn.Line) && !s.isLater(v, name)
}

// variable adds the arguments of a variable, and describes it.
func (s *statementReader) variable(v *source.Variable, one *Variable) error {
	t, err := s.typeOf(dwarf.Offset(v.Type))
	if err != nil {
		return err
	}
	value, onHeap := t, v.Name != one.Name
	if onHeap {
		if t.kind != reflect.Pointer {
			return errMismatch
		}
		if value, err = s.target(dwarf.Offset(v.Type)); err != nil {
			return err
		}
	}
	one.Type = value.name
	switch {
	case !v.Ever:
		return errNever
	case v.Location == nil:
		return errGone
	}
	all, err := pieces(v.Location.Expression)
	if err != nil {
		return err
	}
	isOwn := func(p piece) bool { return p.memory && p.offset < 0 }
	if s.fn.Place != AtStatement && slices.ContainsFunc(all, isOwn) {
		return errBegins
	}
	s.local = &local{machine: s.file.Machine, frame: s.frame}
	if err := s.local.fit(t, all, v.Location.Fixed || !s.optimized); err != nil {
		return err
	}
	if s.optimized {
		one.Unsure = cmp.Or(s.isOld(v, one.Name, value), s.doubt(v, one.Name, t, all), s.early())
	}
	if onHeap {
		pointer := s.word(0)
		s.pointer = &pointer
	}
	s.unsure = one.Unsure != nil
	s.reader.read(one.Name, value, 0)
	s.unsure, s.pointer = false, nil
	return nil
}

// early returns an error if the compiler may have moved the statement.
func (s *statementReader) early() error {
	if s.fn.Statement.early {
		return errMoved
	}
	return nil
}

// typeOf reads the type at an offset.
func (s *statementReader) typeOf(at dwarf.Offset) (*goType, error) {
	t, err := s.debug.types.read(at, toFields, 0)
	if err != nil {
		if opaque := s.debug.types.opaque(at, err); opaque != nil {
			return opaque, nil
		}
	}
	return t, err
}

// target reads the type to which the pointer type at an offset points.
func (s *statementReader) target(at dwarf.Offset) (*goType, error) {
	e, err := s.debug.types.entries.At(at)
	if err != nil || e == nil {
		return nil, cmp.Or(err, errType)
	}
	to, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return nil, errType
	}
	return s.typeOf(to)
}

// isOld returns the reason why the place of a variable of a type may have an old value, or nil: the
// compiler may keep a new value elsewhere, without a description. The variable is assigned once.
func (s *statementReader) isOld(v *source.Variable, name string, t *goType) error {
	switch {
	case v.Result:
		return errResult
	case s.sourceErr != nil:
		return s.sourceErr
	}
	d := s.declaration(v, name)
	switch {
	case d.Loop:
		return errLoop
	case d.Assigned:
		return errReassigned
	}
	for part := range d.Changed {
		if _, _, inside := t.part(part); inside {
			return errReassigned
		}
	}
	for part := range d.Selected {
		if of, method, inside := t.part(part); inside && method != "" && !s.isOfValue(of, method) {
			return errMethod
		}
	}
	return nil
}

// isOfValue reports whether the method of a type gets a copy of the value.
func (v *variableReader) isOfValue(of *goType, method string) bool {
	name := of.name + "." + method
	known, ok := v.methods[name]
	if ok {
		return known
	}
	names, err := v.Program.table.Names(func(b []byte) bool { return string(b) == name })
	known = err == nil && slices.ContainsFunc(names, func(word uint64) bool { return word != 0 })
	if v.methods == nil || len(v.methods) == maxNames {
		v.methods = map[string]bool{}
	}
	v.methods[name] = known
	return known
}
