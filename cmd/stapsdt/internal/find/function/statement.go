//go:build linux

package function

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/source"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

// Statement is a statement in a function, as a place that is probed.
type Statement struct {
	// In are the functions that have the statement: the one in whose source it is, the one that has
	// inlined that, and so on. The last one has the code.
	In []string
	// Loop means that the statement can be executed again before the function returns.
	Loop bool
	// Emulated means that the kernel emulates the instruction and does not single-step it.
	Emulated bool
	// Framed means that the frame of the function exists, so that its stack can be walked.
	Framed bool
	// Guessed means that only the line of the code is known, and not where its statement begins.
	Guessed bool
	// Refused is the reason why the kernel does not trace the instruction, or nil.
	Refused error
	// early means that the statement only computes a value, in an inlined function: it may be
	// computed early, for a call that is not made.
	early bool
	// Variables are those that the source can use, in the order of their declarations.
	Variables []Variable
}

var (
	errStatement = errors.New("it is a line and not a call")
	// errVariables is why a line without DWARF has no arguments.
	errVariables = errors.New("without DWARF, variables at lines are not read")
)

// rowAt is a row, and what is at its address.
type rowAt struct {
	row source.Statement
	in  gotable.Address
}

// body is the code of a function, and its offset in the file.
type body struct {
	*flow
	entry  uint64
	code   []byte
	offset uint64
}

// statements returns the statements of the rows.
func (l *lineFinder) statements() (all []*Function, err error) {
	var places []rowAt
	for _, row := range l.all {
		if row.Line < l.lines.First || row.Line > l.lines.Last {
			continue
		}
		in, ok := l.table.At(row.Address)
		if ok && !in.Assembly && !l.isMade(&in, row) {
			places = append(places, rowAt{row, in})
		}
	}
	// Each call that was inlined, and each line of it, is compared on its own.
	order := func(a, b rowAt) int {
		return cmp.Or(cmp.Compare(a.in.Entry, b.in.Entry),
			cmp.Compare(a.in.Call, b.in.Call), cmp.Compare(a.row.Line, b.row.Line))
	}
	slices.SortStableFunc(places, order)
	work, f := flowWork, &body{}
	for len(places) > 0 {
		n := 1
		for n < len(places) && order(places[0], places[n]) == 0 {
			n++
		}
		if in := &places[0].in; f.entry != in.Entry { // each function is decoded once
			if f, err = l.bodyOf(in, &work); err != nil {
				return nil, fmt.Errorf("%s: %w", in.Names[len(in.Names)-1], err)
			}
		}
		all, places = append(all, l.inFunction(f, places[:n])...), places[n:]
	}
	slices.SortStableFunc(all, func(a, b *Function) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Entry, b.Entry))
	})
	return all, nil
}

// bodyOf decodes a function.
func (p *Program) bodyOf(a *gotable.Address, work *int) (*body, error) {
	if isFIPS(a.Names[len(a.Names)-1]) {
		return nil, errFIPS
	}
	code, offset, err := p.code(a.Entry, a.End)
	if err != nil {
		return nil, err
	}
	if len(code) > maxFlow {
		return nil, fmt.Errorf("its %d bytes exceed the limit of %d for lines", len(code), maxFlow)
	}
	f, ok := p.newFlow(code, a, work)
	if !ok {
		return nil, errDecode
	}
	return &body{f, a.Entry, code, offset}, nil
}

// wrapper matches the end of the name of a function that the compiler makes of the call in a go or
// defer statement.
var wrapper = lazyregexp.New(`\.(gowrap|deferwrap)\d+$`)

// literal matches the end of the name of a function literal, as in main.f.func1 and main.f.func1.2,
// but not that of a function init, as in main.init.0.
var literal = lazyregexp.New(`(\.func|-range|\.func\d+(\.\d+)*\.)\d+$`)

// isMade reports whether a row is no statement of its line, because the compiler has made the
// function of a statement there, or it is the beginning of a function literal whose statements are
// at other lines.
func (l *lineFinder) isMade(a *gotable.Address, row source.Statement) bool {
	name := a.Names[0]
	return wrapper().MatchString(name) ||
		literal().MatchString(name) && row.Line == a.Declared && len(a.Names) == 1 &&
			!l.table.OnLine(a.Entry, row.Line)
}

// inFunction returns the statements at the places of one line in a function.
func (l *lineFinder) inFunction(f *body, places []rowAt) (all []*Function) {
	for _, i := range f.distinct(f.begun(l.table, places)) {
		in := slices.IndexFunc(places, func(p rowAt) bool {
			at := f.entry + f.offsets[i]
			return p.row.Address <= at && at < p.row.End
		})
		all = append(all, l.statement(f, &places[max(in, 0)], i))
	}
	return all
}

// begun returns the instructions of places with which statements begin, and those with which they
// are continued. Those that compute a value early, in the code of another statement, are left out
// if there are others.
func (f *body) begun(t *gotable.Table, places []rowAt) (begun, continued []int) {
	var early []int
	inLine := func(offset uint64) bool {
		return slices.ContainsFunc(places, func(p rowAt) bool {
			return p.row.Address <= f.entry+offset && f.entry+offset < p.row.End
		})
	}
	for _, p := range places {
		row := &p.row
		// A damaged file could lead into an instruction.
		i, isInstruction := f.at(row.Address - f.entry)
		growing := p.in.Frame && p.in.Stack <= 0 && row.Address != f.entry
		if isInstruction {
			f.judge(i, endOf(t, &p.in, row)-f.entry, inLine)
		}
		switch {
		case !isInstruction || growing:
		case !row.Begins:
			continued = append(continued, i)
		case f.steps[i].computes && isAmid(t, &p.in, row):
			early = append(early, i)
		default:
			begun = append(begun, i)
			begun = append(begun, f.entered(i, row.End-f.entry)...)
		}
	}
	if len(begun) == 0 {
		begun = early
	}
	slices.Sort(begun)
	return slices.Compact(begun), continued
}

// endOf returns the end of the code of a row, with that of functions that are inlined there.
func endOf(t *gotable.Table, a *gotable.Address, row *source.Statement) (end uint64) {
	end = row.End
	for _, b := range row.Behind() {
		in, ok := t.At(b.Address)
		if end = b.Address; ok && in.Call == a.Call && b.Line != row.Line {
			break
		}
	}
	return min(end, a.End)
}

// isAmid reports whether the statement of another line that is before a row goes on behind it.
// Functions that are inlined there do not matter.
func isAmid(t *gotable.Table, a *gotable.Address, row *source.Statement) bool {
	nearest := func(all []source.Beside) source.Beside {
		for _, b := range all {
			if in, ok := t.At(b.Address); ok && in.Entry == a.Entry && in.Call == a.Call {
				return b
			}
		}
		return source.Beside{Begins: true}
	}
	before, behind := nearest(row.Before()), nearest(row.Behind())
	return !behind.Begins && behind.Line == before.Line && behind.Line != row.Line
}

// statement returns the statement at an instruction of a function.
func (l *lineFinder) statement(f *body, p *rowAt, i int) *Function {
	at, kind := f.offsets[i], AtStatement
	// The beginning of a function is executed again when its stack has grown.
	s := &Statement{
		In: p.in.Names, Loop: at > 0 && f.loops(i), Framed: p.in.Frame, Guessed: l.guessed,
	}
	s.early = p.in.Call >= 0 && !f.acts(i, p.row.End-f.entry)
	if at == 0 { // a call counts once, even if the stack grows
		at, kind = l.call(f.code[:min(len(f.code), maxStart)])
		s.Framed = false
	}
	isEmulated := isEmulatedX86
	if l.file.Machine == elf.EM_AARCH64 {
		isEmulated = isEmulatedARM64
	}
	s.Emulated, s.Refused = isEmulated(f.code, at)
	return &Function{
		Name: fmt.Sprintf("%s:%d", l.pattern, p.row.Line), File: p.row.File, Line: p.row.Line,
		Entry: f.entry + at, Place: kind, Call: Site{f.entry + at, f.offset + at},
		Statement: s, returnErr: errStatement,
	}
}
