package gotable

import (
	"cmp"
	"iter"
	"slices"
)

// Function is a function of a program.
type Function struct {
	// Name is the name that go tool nm shows, without escapes.
	Name string
	// Entry and End are addresses of the file. Padding may precede End.
	Entry, End uint64
	// Args is the size that the compiler has noted for the function's arguments and results,
	// including the space to which it spills arguments. It is negative if unknown.
	Args int32
	// Assembly means that the function was written in assembly, and Wrapper that the compiler made
	// it to call another one.
	Assembly, Wrapper bool
	// NameAt is the offset of the name, as in Names.
	NameAt uint32

	index uint64
}

// Words and bytes of a runtime._func, and the flags and numbers in them (internal/abi/symtab.go).
const (
	wordArgs     = 2
	idAt         = 40
	flagAssembly = 1 << 2
)

// wrapperID is abi.FuncIDWrapper, the last constant of its list, by the minor number of the
// release.
var wrapperID = map[int]byte{22: 22, 23: 22, 24: 22, 25: 23, 26: 23, 27: 23}

// Functions calls yield for each function whose name is in a set, in the order of their addresses,
// until it returns false. Release is the minor number of the Go release that has built the program,
// such as 26. The error is a read error.
func (t *Table) Functions(release int, names Names, yield func(Function) bool) error {
	wrapper, known := wrapperID[release]
	for f, i := range t.all() {
		name := f.field(wordName)
		if !names.Has(name) {
			continue
		}
		fn := Function{
			Name: t.Name(name), NameAt: name, Entry: f.entry, End: f.end,
			Args:     int32(f.field(wordArgs)),
			Assembly: f.raw[flagAt]&flagAssembly != 0,
			Wrapper:  known && f.raw[idAt] == wrapper,
			index:    i,
		}
		if fn.Name != "" && fn.End > fn.Entry && !yield(fn) {
			break
		}
	}
	return cmp.Or(t.index.err, t.lines.err, t.names.err)
}

// maxFunctions is the maximum number of functions that are looked at. The largest programs have
// some hundred thousand.
const maxFunctions = 1 << 21

// all yields the functions with their indexes. The linker writes them in this order. Others are
// damaged: reading a page for each of them would take long.
func (t *Table) all() iter.Seq2[*goFunction, uint64] {
	return func(yield func(f *goFunction, i uint64) bool) {
		t.index.err, t.lines.err, t.names.err = nil, nil, nil
		f, last := &goFunction{Table: t}, uint64(0)
		funcs := min(t.funcs, maxFunctions)
		for i := uint64(0); i < funcs && t.index.err == nil && t.lines.err == nil; i++ {
			if f.read(i) && f.place > last {
				last = f.place
				if !yield(f, i) {
					return
				}
			}
		}
	}
}

// Line returns the position of a function's declaration in the source.
func (t *Table) Line(fn *Function) (file string, line int) {
	f := goFunction{Table: t}
	if !f.read(fn.index) {
		return "", 0
	}
	all := f.at(fn.Entry) // the first instruction can be of an inlined function, in another file
	return all[len(all)-1].File, int(f.field(wordDecl))
}

const (
	// maxInlinedCalls is the maximum number of inlined calls that are returned. The largest
	// programs have some hundred thousand.
	maxInlinedCalls = 1 << 21
	// maxTree is the maximum size of a table of inlined calls.
	maxTree = 1 << 20
	// maxSteps is the maximum number of values by address that are read to find them, in pages that
	// are read maxRereads times on average, because functions can share tables of values.
	maxSteps   = 1 << 26
	maxRereads = 8
)

// Inlined is a call that the compiler has replaced by the code of the function that was called.
type Inlined struct{ Callee, Caller uint32 } // the offsets of their names, as in Names

// Inlined returns the calls of functions whose names are in a set, each once and in the order of
// their callees. The error is a read error.
func (t *Table) Inlined(callees Names) (all []Inlined, err error) {
	if t.inlined == nil {
		return nil, nil
	}
	t.inlined.err, t.pcs.err = nil, nil
	found, steps := t.entries(callees), 0
	reads := t.pcs.reads + pageCount + int(t.pcs.size/pageSize)*maxRereads
	wanted, f := map[int32]uint32{}, goFunction{Table: t}
	for i, e := range found {
		wanted[e.index] = e.callee
		if i+1 < len(found) && found[i+1].function == e.function {
			continue
		}
		if !f.read(uint64(e.function)) || t.pcs.reads > reads || steps > maxSteps {
			break
		}
		for _, index := range f.values(f.pcdata(pcInlined)) {
			steps++
			if callee, ok := wanted[index]; ok {
				all = append(all, Inlined{callee, f.field(wordName)})
				if delete(wanted, index); len(wanted) == 0 {
					break
				}
			}
		}
		clear(wanted) // what follows the function's table was taken for entries
	}
	slices.SortFunc(all, func(a, b Inlined) int {
		return cmp.Or(cmp.Compare(a.Callee, b.Callee), cmp.Compare(a.Caller, b.Caller))
	})
	return slices.Compact(all), cmp.Or(t.inlined.err, t.pcs.err, t.index.err, t.lines.err)
}

// entry is an entry of a function's table of inlined calls.
type entry struct {
	function uint32 // its index
	index    int32
	callee   uint32
}

// entries returns the entries with callees in a set, in the order of the functions. Nothing tells
// where a table ends, so that each is read up to the next one, and some that it returns are none.
func (t *Table) entries(callees Names) (all []entry) {
	var trees []uint64 // the places of the tables, and the indexes of the functions
	for f, i := range t.all() {
		if at, ok := f.tree(); ok && len(trees) < maxInlinedCalls {
			trees = append(trees, at<<32|i)
		}
	}
	slices.Sort(trees)
	for i := 0; i < len(trees) && len(all) < maxInlinedCalls; {
		from, next := i, t.inlined.size
		at := trees[i] >> 32
		for ; i < len(trees) && trees[i]>>32 == at; i++ {
		}
		if i < len(trees) {
			next = trees[i] >> 32
		}
		size := min(next-at, maxTree)
		var b []byte
		for offset := uint64(0); offset+inlinedCall <= size; offset += inlinedCall {
			if len(b) < inlinedCall {
				b = t.inlined.from(at+offset, inlinedCall)
			}
			if len(b) < inlinedCall {
				break
			}
			callee := t.order.Uint32(b[4:])
			b = b[inlinedCall:]
			if !callees.Has(callee) {
				continue
			}
			for _, tree := range trees[from:i] {
				all = append(all, entry{uint32(tree), int32(offset / inlinedCall), callee})
			}
			if len(all) >= maxInlinedCalls {
				break
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.function, b.function), cmp.Compare(a.index, b.index))
	})
	return all
}
