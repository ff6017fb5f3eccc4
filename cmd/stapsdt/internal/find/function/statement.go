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
}

var (
	errStatement = errors.New("it is a line and not a call")
	// errVariables is why a line has no arguments.
	errVariables = errors.New("variables at lines are not read")
)

// statements returns the statements of the rows.
func (l *lineFinder) statements() (all []*Function, err error) {
	type place struct {
		source.Statement
		gotable.Address
	}
	var places []place
	for _, row := range l.all {
		if row.Line < l.lines.First || row.Line > l.lines.Last {
			continue
		}
		a, ok := l.table.At(row.Address)
		if ok && !a.Assembly && !l.isMade(&a, row) {
			places = append(places, place{row, a})
		}
	}
	// Each call that was inlined, and each line of it, is compared on its own.
	order := func(a, b place) int {
		return cmp.Or(
			cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Call, b.Call), cmp.Compare(a.Line, b.Line),
		)
	}
	slices.SortStableFunc(places, order)
	work := flowWork
	for i := 0; i < len(places); {
		first := &places[i]
		var rows []source.Statement
		for ; i < len(places) && order(*first, places[i]) == 0; i++ {
			rows = append(rows, places[i].Statement)
		}
		some, err := l.inFunction(&first.Address, rows, &work)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b *Function) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Entry, b.Entry))
	})
	return all, nil
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

// inFunction returns the statements in rows of one line in a function.
func (l *lineFinder) inFunction(
	a *gotable.Address, rows []source.Statement, work *int,
) (all []*Function, err error) {
	name := a.Names[len(a.Names)-1]
	if isFIPS(name) {
		return nil, fmt.Errorf("%s: %w", name, errFIPS)
	}
	code, offset, err := l.code(a.Entry, a.End)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(code) > maxFlow {
		return nil, fmt.Errorf("%s: its %d bytes exceed the limit of %d for lines", name, len(code), maxFlow)
	}
	f, ok := l.newFlow(code, a, work)
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, errDecode)
	}
	for _, i := range f.distinct(f.places(l.table, a, rows)) {
		fn, err := l.statement(a, rows[0], code, offset, f, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, fn)
	}
	return all, nil
}

// places returns the instructions of rows in a function with which statements begin, and those with
// which they are continued. Those that compute a value early, in the code of another statement, are
// left out if there are others.
func (f *flow) places(
	t *gotable.Table, a *gotable.Address, rows []source.Statement,
) (places, continued []int) {
	var early []int
	inLine := func(offset uint64) bool {
		return slices.ContainsFunc(rows, func(row source.Statement) bool {
			return row.Address <= a.Entry+offset && a.Entry+offset < row.End
		})
	}
	for _, row := range rows {
		// A damaged file could lead into an instruction.
		i, isInstruction := f.at(row.Address - a.Entry)
		here, _ := t.At(row.Address)
		growing := a.Frame && here.Stack <= 0 && row.Address != a.Entry
		if isInstruction {
			f.judge(i, endOf(t, a, &row)-a.Entry, inLine)
		}
		switch {
		case !isInstruction || growing:
		case !row.Begins:
			continued = append(continued, i)
		case f.steps[i].computes && isAmid(t, a, &row):
			early = append(early, i)
		default:
			places = append(places, i)
			places = append(places, f.entered(i, row.End-a.Entry)...)
		}
	}
	if len(places) == 0 {
		places = early
	}
	slices.Sort(places)
	return slices.Compact(places), continued
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
func (l *lineFinder) statement(
	a *gotable.Address, row source.Statement, code []byte, offset uint64, f *flow, i int,
) (*Function, error) {
	at, place := f.offsets[i], AtStatement
	// The beginning of a function is executed again when its stack has grown.
	s := &Statement{In: a.Names, Loop: at > 0 && f.loops(i), Framed: a.Frame, Guessed: l.guessed}
	isARM64 := l.file.Machine == elf.EM_AARCH64
	if at == 0 { // a call counts once, even if the stack grows
		call := callX86
		if isARM64 {
			call = callARM64
		}
		at, place = call(code[:min(len(code), maxStart)])
		s.Framed = false
	}
	kind := kindX86
	if isARM64 {
		kind = kindARM64
	}
	var err error
	if s.Emulated, err = kind(code, at); err != nil {
		return nil, err
	}
	return &Function{
		Name: fmt.Sprintf("%s:%d", l.pattern, row.Line), File: row.File, Line: row.Line,
		Entry: a.Entry + at, Place: place, Call: Site{a.Entry + at, offset + at},
		ArgsErr: errVariables, Statement: s, described: true, returnErr: errStatement,
	}, nil
}
