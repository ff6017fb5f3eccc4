package gotable

import (
	"cmp"
	"errors"
)

// Address is what the table knows of an address.
type Address struct {
	// Entry and End are those of the function that contains the address.
	Entry, End uint64
	// Declared is the line of its declaration.
	Declared int
	// Names are the names of the functions at the address, the inlined ones first. The last one is
	// the function that contains it.
	Names []string
	// Call is the number of the inlined call to which the address belongs, or -1.
	Call int32
	// Stack is the number of bytes that the function has put on the stack, and Frame whether it
	// puts any there.
	Stack int32
	Frame bool
	// Assembly means that the function was written in assembly.
	Assembly bool
}

// wordStack is a word of a runtime._func.
const wordStack = 4

// At returns what is known of an address. ok is false if it is in no function.
func (t *Table) At(pc uint64) (a Address, ok bool) {
	f := t.find(pc)
	if f == nil || pc >= f.end {
		return a, false
	}
	a = Address{
		Entry: f.entry, End: f.end, Declared: int(f.field(wordDecl)),
		Assembly: f.raw[flagAt]&flagAssembly != 0,
		Call:     f.value(f.pcdata(pcInlined), pc), Stack: f.value(f.field(wordStack), pc),
	}
	for name := range f.calls(pc) {
		a.Names = append(a.Names, t.Name(name))
	}
	for _, size := range f.values(f.field(wordStack)) {
		a.Frame = a.Frame || size > 0
	}
	return a, true
}

// OnLine reports whether all code of a function is on one line.
func (t *Table) OnLine(entry uint64, line int) bool {
	f := t.find(entry)
	if f == nil {
		return false
	}
	for _, other := range f.values(f.field(wordLine)) {
		if int(other) != line {
			return false
		}
	}
	return true
}

// Row is a part of the code of a line, with its first address and its end.
type Row struct {
	File         string
	Line         int
	Address, End uint64
}

const (
	// maxPaths is the maximum number of paths that are looked at. The largest programs have some
	// ten thousand.
	maxPaths = 1 << 18
	// maxRowReads is maxRereads for the rows of all functions, which share tables.
	maxRowReads = 64
)

var errRows = errors.New("its table of functions takes too long to read")

// Rows calls yield with the code of each line of the files whose paths match. Code that belongs to
// one line and continues behind that of another one has several rows. The error is a read error.
func (t *Table) Rows(match func(path string) bool, yield func(Row)) error {
	t.pcs.err, t.units.err, t.files.err = nil, nil, nil
	r := rows{match: match, yield: yield, known: map[uint32]string{}}
	reads := t.pcs.reads + pageCount + int(t.pcs.size/pageSize)*maxRowReads
	for f := range t.all() {
		if t.pcs.reads > reads || r.steps > maxSteps || len(r.known) > maxPaths {
			return errRows
		}
		r.of(f)
	}
	return cmp.Or(t.index.err, t.lines.err, t.pcs.err, t.units.err, t.files.err)
}

// rows finds the rows of functions.
type rows struct {
	match func(path string) bool
	yield func(Row)
	known map[uint32]string // paths by their places in files, "" if they do not match
	steps int
}

// of yields the rows of a function.
func (r *rows) of(f *goFunction) {
	type stretch struct {
		start, end uint64
		path       string
	}
	var in []stretch
	start := f.entry
	for end, number := range f.values(f.field(wordFile)) {
		r.steps++
		if path := r.path(f, number); path != "" {
			in = append(in, stretch{start, end, path})
		}
		start = end
	}
	if len(in) == 0 {
		return
	}
	start = f.entry
	for end, line := range f.values(f.field(wordLine)) {
		r.steps++
		for len(in) > 0 && in[0].start < end {
			if from, to := max(start, in[0].start), min(end, in[0].end); from < to {
				r.yield(Row{in[0].path, int(line), from, to})
			}
			if in[0].end > end {
				break
			}
			in = in[1:]
		}
		start = end
	}
}

// path returns the path of a file of a function, or "" if it does not match.
func (r *rows) path(f *goFunction, number int32) string {
	at, ok := f.pathAt(number)
	if !ok {
		return ""
	}
	path, ok := r.known[at]
	if !ok {
		if path = f.files.text(uint64(at)); !r.match(path) {
			path = ""
		}
		r.known[at] = path
	}
	return path
}

// maxJumps is the maximum number of addresses in a jump table.
const maxJumps = 1 << 12

// JumpTables returns the addresses in the jump tables at some different addresses, which are in
// order. A table ends where another one begins, or with an address that is not in the function from
// low to high.
func (t *Table) JumpTables(tables []uint64, low, high uint64) map[uint64][]uint64 {
	all := map[uint64][]uint64{}
	if len(tables) == 0 {
		return all
	}
	m := &memory{file: t.memory.file, relocated: map[uint64]uint64{}}
	for at, to := range m.relocations() {
		if at >= tables[0] && to >= low && to < high {
			m.relocated[at] = to
		}
	}
	for i, start := range tables {
		end := start + 8*maxJumps
		if i+1 < len(tables) {
			end = min(end, tables[i+1])
		}
		var jumps []uint64
		for at := start; at < end; at += 8 {
			to, ok := m.pointer(at)
			if !ok || to < low || to >= high {
				break
			}
			jumps = append(jumps, to)
		}
		all[start] = jumps
	}
	return all
}
