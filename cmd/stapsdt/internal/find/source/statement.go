//go:build linux

package source

import (
	"errors"
	"slices"
)

// Statement is code of a line without a gap, with its first address and its end.
type Statement struct {
	File         string
	Line         int
	Address, End uint64
	// Begins means that a statement begins at the address.
	Begins bool

	rows        []row // of the sequence
	first, next int   // the indexes of its rows, and of the one behind
}

// Before returns a few rows before the code, the nearest first.
func (s *Statement) Before() []Beside {
	all := beside(s.rows[max(s.first-maxBeside, 0):s.first])
	slices.Reverse(all)
	return all
}

// Behind returns a few rows behind the code.
func (s *Statement) Behind() []Beside {
	return beside(s.rows[s.next:min(s.next+maxBeside, len(s.rows))])
}

// Beside is code with which a statement of a line begins, or is continued.
type Beside struct {
	Address uint64
	Line    int
	Begins  bool
}

// maxBeside is the maximum number of rows before and behind a statement that are returned.
const maxBeside = 8

// ErrLines means that the tables of lines are damaged, or are more than may be read.
var ErrLines = errors.New("its tables of lines are damaged or too large")

// Statements calls yield with the code of each line, of the files that have a name, or any name if
// it is "", and whose paths match. It reads the tables of lines one after the other, without the
// units to which they belong: each package has a table, which also has the lines of the functions
// that are inlined in it. addressSize is the size of the program's addresses.
func (t *Table) Statements(
	addressSize int, name string, match func(path string) bool, yield func(Statement),
) error {
	err := t.line.open()
	for at := uint64(0); err == nil && at < t.line.size; {
		var p *program
		if p, at, err = t.program(at, addressSize); err == nil {
			err = t.statements(p, name, match, yield)
		}
	}
	if err == errDamaged || err == errBudget {
		return ErrLines
	}
	return err
}

// statements is Statements for one table.
func (t *Table) statements(
	p *program, name string, match func(path string) bool, yield func(Statement),
) error {
	l, paths := p.table, map[uint32]string{}
	u := &unit{encoding: p.encoding}
	for i := range l.files {
		if v := l.files[i].name; name != "" && v.form == formString && string(v.text) != name {
			continue
		}
		number := uint32(i)
		if l.version < 5 {
			number++
		}
		path, err := t.file(u, l, number)
		if err != nil {
			return err
		}
		if path != "" && match(path) {
			paths[number] = path
		}
	}
	if len(paths) == 0 {
		return nil
	}
	if err := p.run(t.budget); err != nil {
		return err
	}
	for _, s := range l.sequences {
		rows := l.rows[s.of[0]:s.of[1]]
		next := len(rows)
		for i := len(rows) - 1; i >= 0; i-- {
			r, end := rows[i], s.end
			if i+1 < len(rows) && (rows[i+1].file != r.file || rows[i+1].line != r.line) {
				next = i + 1
			}
			if next < len(rows) {
				end = rows[next].address
			}
			path := paths[r.file]
			continued := i > 0 && rows[i-1].file == r.file && rows[i-1].line == r.line
			if path == "" || continued && !r.begins {
				continue
			}
			yield(Statement{path, int(r.line), r.address, end, r.begins, rows, i, next})
		}
	}
	return nil
}

func beside(rows []row) (all []Beside) {
	for _, r := range rows {
		all = append(all, Beside{r.address, int(r.line), r.begins})
	}
	return all
}
