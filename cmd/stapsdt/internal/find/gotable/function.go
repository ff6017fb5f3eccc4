package gotable

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

// Functions calls yield for each function, in the order of their addresses, until it returns false.
// Release is the minor number of the Go release that has built the program, such as 26.
func (t *Table) Functions(release int, yield func(Function) bool) {
	wrapper, known := wrapperID[release]
	for i := range t.funcs {
		f := t.function(i)
		if f == nil {
			continue
		}
		fn := Function{
			Name:  t.name(f.field(wordName)),
			Entry: f.entry, End: t.text + uint64(t.u32(t.lines, 8*(i+1))),
			Args:     int32(f.field(wordArgs)),
			Assembly: f.raw[flagAt]&flagAssembly != 0,
			Wrapper:  known && f.raw[idAt] == wrapper,
			index:    i,
		}
		if fn.Name != "" && fn.End > fn.Entry && !yield(fn) {
			return
		}
	}
}

// Line returns the position of a function's declaration in the source.
func (t *Table) Line(fn *Function) (file string, line int) {
	f := t.function(fn.index)
	if f == nil {
		return "", 0
	}
	all := f.at(fn.Entry) // the first instruction can be of an inlined function, in another file
	return all[len(all)-1].File, int(f.field(wordDecl))
}

// Inlined calls visit for each inlined call, with the name of the function that was called and the
// name of the function that contains its code.
func (t *Table) Inlined(visit func(callee string, caller string)) {
	names := map[uint32]string{}
	name := func(at uint32) string {
		known, ok := names[at]
		if !ok {
			known = t.name(at)
			names[at] = known
		}
		return known
	}
	seen := map[int32]bool{}
	for i := range t.funcs {
		f := t.function(i)
		if f == nil {
			continue
		}
		tree := f.tree()
		if len(tree) == 0 {
			continue
		}
		clear(seen)
		for _, index := range f.values(f.pcdata(pcInlined)) {
			if index < 0 || seen[index] || uint64(index) >= uint64(len(tree))/inlinedCall {
				continue
			}
			seen[index] = true
			visit(name(f.u32(tree[uint64(index)*inlinedCall:], 4)), name(f.field(wordName)))
		}
	}
}
