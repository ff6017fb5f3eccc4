//go:build linux

package source

import (
	"cmp"
	"path"
	"slices"
	"sort"
	"strings"
)

// row is the position of the code from its address to the address of the next row.
type row struct {
	address    uint64
	file, line uint32
	begins     bool // a statement, at the address
}

func (r row) known() bool { return r != row{} }

// lines is the table of lines of a unit.
type lines struct {
	version     int
	rows        []row
	sequences   spans[[2]int] // the first of their rows, and the one after the last
	directories []file        // without directories of their own
	files       []file
	size        int // of the program, in which the names of files can be
}

// file is a file by its name in a directory, or a directory by its path.
type file struct {
	name      value
	directory uint64
}

const (
	rowMemory = 24
	// maxRows is the maximum number of rows of a unit, and of its files and their directories.
	maxRows  = 1 << 20
	maxFiles = 1 << 16
	// maxLines is the maximum size of a unit's table of lines.
	maxLines = 16 << 20
)

func (l *lines) memory() int {
	const fileMemory = 56
	return l.size + rowMemory*cap(l.rows) + (spanMemory+16)*cap(l.sequences) +
		fileMemory*(cap(l.files)+cap(l.directories))
}

// at returns the position of an address, or a zero row.
func (l *lines) at(pc uint64) row {
	if l == nil {
		return row{}
	}
	for _, s := range l.sequences.at(pc) {
		rows := l.rows[s[0]:s[1]]
		if i := sort.Search(len(rows), func(i int) bool { return rows[i].address > pc }); i > 0 {
			return rows[i-1]
		}
	}
	return row{}
}

// file returns the path of a file by its number.
func (t *Table) file(u *unit, l *lines, number uint32) (string, error) {
	if l == nil {
		return "", nil
	}
	i := uint64(number)
	if l.version < 5 {
		i-- // the first file is the first
	}
	if i >= uint64(len(l.files)) {
		return "", nil
	}
	f := l.files[i]
	name, err := t.text(u, f.name)
	if err != nil || name == "" || path.IsAbs(name) {
		return name, err
	}
	directory, d := "", f.directory
	if l.version < 5 {
		d-- // 0 is the unit's directory
	}
	if d < uint64(len(l.directories)) {
		if directory, err = t.text(u, l.directories[d].name); err != nil {
			return "", err
		}
	}
	if !path.IsAbs(directory) && u.directory.form != 0 {
		root, err := t.text(u, u.directory)
		if err != nil {
			return "", err
		}
		directory = join(root, directory)
	}
	return join(directory, name), nil
}

// join joins a directory and a path, which keep the dots that debuggers show.
func join(directory, name string) string {
	if directory == "" || name == "" {
		return directory + name
	}
	return strings.TrimSuffix(directory, "/") + "/" + name
}

// readLines reads the table of lines of a unit, or returns nil if there is none.
func (t *Table) readLines(u *unit) (*lines, error) {
	if u.lines.form == 0 {
		return nil, nil
	}
	p, _, err := t.program(u.lines.n, u.address)
	if err != nil {
		return nil, err
	}
	return p.table, p.run(t.budget)
}

// program returns the program that makes the table of lines at an offset, and the offset of the
// next one, with the size of an address before DWARF 5.
func (t *Table) program(at uint64, address int) (p *program, next uint64, err error) {
	b, err := t.line.from(at, 12)
	if err != nil {
		return nil, 0, err
	}
	c := cursor{b: b, order: t.order}
	length, first, word := c.uint(4), uint64(4), 4
	if length == 0xffffffff {
		length, first, word = c.uint(8), 12, 8
	}
	if c.short || length > maxLines {
		return nil, 0, errDamaged
	}
	if b, err = t.line.bytes(at+first, length); err != nil {
		return nil, 0, err
	}
	if err := t.budget.spend(len(b)); err != nil {
		return nil, 0, err
	}
	p = &program{cursor: cursor{b: b, order: t.order}, table: &lines{size: len(b)}}
	return p, at + first + length, p.header(address, word)
}

// add adds a sequence of rows that ends at an address. The rows begin with the one at first.
func (l *lines) add(first int, end uint64) {
	rows := l.rows[first:]
	if len(rows) == 0 {
		return
	}
	byAddress := func(a, b row) int { return cmp.Compare(a.address, b.address) }
	if !slices.IsSortedFunc(rows, byAddress) {
		slices.SortStableFunc(rows, byAddress)
	}
	start := rows[0].address
	if start == 0 || start >= end { // code that the linker has removed
		l.rows = l.rows[:first]
		return
	}
	all := [2]int{first, len(l.rows)}
	l.sequences = append(l.sequences, span[[2]int]{start: start, end: end, of: all})
}
