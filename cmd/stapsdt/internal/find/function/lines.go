//go:build linux

package function

import (
	"debug/elf"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
)

const (
	// maxRows is the maximum number of rows of a file or a function. Of a larger one, only those of
	// the selected lines are read, and of nearLines before and behind them.
	maxRows   = 1 << 17
	nearLines = 100
)

// lineRows are the rows of the files or of the functions that have a name.
type lineRows struct {
	files   map[string]bool // the paths
	all     []source.Statement
	guessed bool // there is no DWARF
	large   bool // there are more than maxRows
}

// lineFinder finds the statements of lines.
type lineFinder struct {
	*Program
	*lineRows
	pattern spec.Pattern
	lines   spec.Lines
}

// FindLines returns the addresses at which statements of lines begin, each as a Function that is
// seen nowhere else, in the order of the lines. The pattern is a file or a function. It is an error
// if there are none, or more than most.
func (p *Program) FindLines(
	pattern spec.Pattern, lines spec.Lines, most int,
) ([]*Function, error) {
	if err := p.remember(); err != nil {
		return nil, err
	}
	rows, err := p.rowsOf(pattern, lines)
	if err != nil {
		return nil, err
	}
	l := &lineFinder{Program: p, lineRows: rows, pattern: pattern, lines: lines}
	if pattern.IsSource() && len(l.files) > 1 {
		paths := slices.Sorted(maps.Keys(l.files))
		return nil, fmt.Errorf("%s is %d files, give more of the path of one: %s", pattern, len(paths), text.Some(paths, maxNamed))
	}
	all, err := l.statements()
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, l.none()
	case len(all) > most:
		return nil, fmt.Errorf("%w: %s:%v has %d addresses, but at most %d can be selected", ErrMany, pattern, lines, len(all), most)
	}
	return all, nil
}

// inFile returns what a path of a row must satisfy.
func (p *Program) inFile(pattern spec.Pattern) (match func(path string) bool, err error) {
	if pattern.IsSource() {
		return pattern.IsSourceOf, nil
	}
	names, err := p.table.Names(func(name []byte) bool { return isNamed(string(name), pattern) })
	if err != nil {
		return nil, err
	}
	paths := map[string]bool{}
	known := slices.ContainsFunc(names, func(word uint64) bool { return word != 0 })
	err = p.table.Functions(p.release, names, func(f gotable.Function) bool {
		if file, _ := p.table.Line(&f); file != "" && !f.Wrapper {
			paths[file] = true
		}
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, p.none(pattern, nil)
	case len(paths) == 0: // it is inlined everywhere
		return func(string) bool { return true }, nil
	}
	return func(path string) bool { return paths[path] }, nil
}

// isNamed reports whether a function has a name, which may leave out type arguments.
func isNamed(function string, name spec.Pattern) bool {
	return function == string(name) || gotable.Short(function) == string(name)
}

// rowsOf returns the rows of a file or a function, or at least those of some lines.
func (p *Program) rowsOf(pattern spec.Pattern, lines spec.Lines) (rows *lineRows, err error) {
	if rows = p.lines[pattern]; rows == nil {
		if rows, err = p.readLines(pattern, spec.Lines{}); err != nil {
			return nil, err
		}
		if p.lines == nil {
			p.lines = map[spec.Pattern]*lineRows{}
		}
		p.lines[pattern] = rows
	}
	if !rows.large {
		return rows, nil
	}
	rows, err = p.readLines(pattern, lines)
	if err == nil && rows.large {
		err = fmt.Errorf("%w: %s:%v has more than %d parts of code", ErrMany, pattern, lines, maxRows)
	}
	return rows, err
}

// readLines reads the rows of a file or a function, or only those near some lines. Without DWARF,
// the program's table of functions has the lines, but not where their statements begin.
func (p *Program) readLines(pattern spec.Pattern, near spec.Lines) (*lineRows, error) {
	match, err := p.inFile(pattern)
	if err != nil {
		return nil, err
	}
	l := &lineRows{files: map[string]bool{}}
	yield := func(row source.Statement) {
		l.files[row.File] = true
		if !pattern.IsSource() {
			a, ok := p.table.At(row.Address)
			if !ok || !isNamed(a.Names[0], pattern) {
				return
			}
		}
		isFar := row.Line < near.First-nearLines || row.Line > near.Last+nearLines
		if !near.IsZero() && isFar || l.large {
			return
		}
		if l.all = append(l.all, row); len(l.all) > maxRows {
			l.all, l.large = nil, true
		}
	}
	err = errNoDWARF
	use := func(f *elf.File) {
		table, name := source.New(f, source.NewBudgetFor(maxDWARF)), ""
		if pattern.IsSource() {
			name = path.Base(string(pattern))
		}
		if table != nil {
			err = table.Statements(wordSize, name, match, yield)
		}
	}
	if use(p.file); err == errNoDWARF && p.separate != nil {
		_ = p.separate(p.file, use)
	}
	if err == errNoDWARF || err == source.ErrLines {
		l = &lineRows{files: map[string]bool{}, guessed: true}
		err = p.table.Rows(match, func(row gotable.Row) {
			yield(source.Statement{
				File: row.File, Line: row.Line, Address: row.Address, End: row.End, Begins: true,
			})
		})
	}
	return l, err
}

// none returns the error for lines at which no statement begins.
func (l *lineFinder) none() error {
	if len(l.files) == 0 {
		return fmt.Errorf("the program has no file %s with code", l.pattern)
	}
	below, above := 0, 0
	for i := range l.all {
		switch line := l.all[i].Line; {
		case !l.all[i].Begins:
		case line < l.lines.First:
			below = max(below, line)
		case line > l.lines.Last && (above == 0 || line < above):
			above = line
		}
	}
	var near []string
	for _, line := range []int{below, above} {
		if line > 0 {
			near = append(near, fmt.Sprint(line))
		}
	}
	switch len(near) {
	case 0:
		return fmt.Errorf("no statement begins in %s", l.pattern)
	case 1:
		return fmt.Errorf("no statement begins at %s:%v; the nearest line with one is %s", l.pattern, l.lines, near[0])
	}
	return fmt.Errorf("no statement begins at %s:%v; the nearest lines with one are %s", l.pattern, l.lines, strings.Join(near, " and "))
}
