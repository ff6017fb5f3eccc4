// Package gotable reads the function table of a Go program. Every Go program has one, even if it is
// stripped.
package gotable

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"iter"
	"sort"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// Table finds Go functions, and the functions that are inlined in them, in the runtime's pclntab,
// in the format of Go 1.20 (runtime/symtab.go, symtabinl.go). debug/gosym reads the pclntab too,
// but no inlined functions, and its caller must know the start of the text, which a stripped
// program has only in the runtime's moduledata. A Table is immutable.
type Table struct {
	order   binary.ByteOrder
	quantum uint64 // the unit of differences between addresses
	text    uint64 // the address of the first function
	funcs   uint64 // the number of functions
	names   []byte
	units   []byte
	files   []byte
	pcs     []byte // tables of values by address
	lines   []byte // a table of the functions, and their runtime._func structs
	inlined []byte // the base of funcdata offsets, or nil if it was not found
	memory  *memory
	types   uint64 // the address of the first type, or 0
}

const (
	goMagic      = 0xfffffff1 // Go 1.20 and later
	goHeader     = 72
	goFunc       = 44 // the size of a runtime._func
	pcInlined    = 2  // abi.PCDATA_InlTreeIndex
	dataInlined  = 3  // abi.FUNCDATA_InlTree
	inlinedCall  = 16 // the size of a runtime.inlinedCall
	flagTop      = 1  // abi.FuncFlagTopFrame
	maxInlined   = 64
	moduleFirst  = 160 // the offset of minpc in a runtime.moduledata, since Go 1.18
	moduleText   = 176 // the offset of text
	moduleTypes  = 296 // the offset of types
	moduleGoFunc = 320 // the lowest offset of gofunc, since Go 1.20
)

var (
	// ErrNoTable means that a file has no table of functions, because it is not a Go program.
	ErrNoTable = errors.New("it is not a Go program")
	// ErrFormat means that the table has a format of another version of Go, or is damaged.
	ErrFormat = errors.New("its table of functions has an unknown format: it is not the format of Go 1.20 to 1.27")
)

// section returns the section with the table, or nil.
func section(f *elf.File) *elf.Section {
	return cmp.Or(elffile.Loaded(f, ".gopclntab"), elffile.Loaded(f, ".data.rel.ro.gopclntab"))
}

// Has reports whether a file has a table.
func Has(f *elf.File) bool {
	s := section(f)
	return s != nil && s.Size > 0
}

// New reads the table of a file. The error is ErrNoTable, ErrFormat, or a read error.
func New(f *elf.File) (*Table, error) {
	if !Has(f) {
		return nil, ErrNoTable
	}
	s := section(f)
	data, err := elffile.Data(s, MaxPart)
	if err != nil {
		return nil, err
	}
	if f.Class != elf.ELFCLASS64 || len(data) < goHeader || f.ByteOrder.Uint32(data) != goMagic ||
		data[7] != 8 {
		return nil, ErrFormat
	}
	t := &Table{order: f.ByteOrder, quantum: uint64(data[6]), funcs: t64(f, data, 8)}
	var parts [5][]byte
	for i := range parts {
		offset := t64(f, data, 32+8*uint64(i))
		if offset > uint64(len(data)) {
			return nil, ErrFormat
		}
		parts[i] = data[offset:]
	}
	t.names, t.units, t.files, t.pcs, t.lines = parts[0], parts[1], parts[2], parts[3], parts[4]
	if t.funcs == 0 || t.funcs > uint64(len(t.lines))/8 || !t.locate(f, s) {
		return nil, ErrFormat
	}
	return t, nil
}

func t64(f *elf.File, data []byte, at uint64) uint64 { return f.ByteOrder.Uint64(data[at:]) }

// locate finds the moduledata, which begins with the address of the table, and reads the start of
// the text from it.
func (t *Table) locate(f *elf.File, s *elf.Section) bool {
	m := newMemory(f)
	t.memory = m
	for _, at := range m.pointersTo(s.Addr) {
		text, ok := m.pointer(at + moduleText)
		if !ok || !m.contains(text, elf.PF_X) {
			continue
		}
		if first, ok := m.pointer(at + moduleFirst); !ok ||
			first != text+uint64(t.u32(t.lines, 0)) {
			continue
		}
		t.text = text
		if types, ok := m.pointer(at + moduleTypes); ok && m.contains(types, 0) {
			t.types = types
		}
		if at, ok := m.goFunc(at, s); ok {
			t.inlined = m.bytes(at)
		}
		return true
	}
	return false
}

// goFunc returns the gofunc of a moduledata. Without it, inlined functions are unknown. The field
// follows rodata, and points into it. Since Go 1.26, its offset varies and the end of the table
// follows it. Before, it is followed by textsectmap, a slice with equal length and capacity.
func (m *memory) goFunc(module uint64, table *elf.Section) (at uint64, ok bool) {
	word := func(offset uint64) uint64 {
		word, _ := m.pointer(module + offset)
		return word
	}
	for offset := uint64(moduleGoFunc); offset <= moduleGoFunc+64; offset += 8 {
		rodata, at, end := word(offset-8), word(offset), word(offset+8)
		isEnd := end > table.Addr && end <= table.Addr+table.Size
		if isOld := offset == moduleGoFunc && word(offset+16) == word(offset+24); !isEnd && !isOld {
			continue
		}
		if rodata < at && m.contains(rodata, 0) && m.contains(at, 0) && !m.contains(at, elf.PF_X) {
			return at, true
		}
	}
	return 0, false
}

// Frame is a function that contains an address.
type Frame struct {
	// Name is the function's name, with [...] for type arguments.
	Name string
	// File and Line are the position of the address in the source.
	File string
	Line int
	// Top means that it is the first function of a thread or a goroutine.
	Top bool
}

// Lookup returns the functions at an address, the inlined ones first.
func (t *Table) Lookup(pc uint64) []Frame {
	if pc < t.text {
		return nil
	}
	offset := pc - t.text
	i := sort.Search(
		int(t.funcs)+1, func(i int) bool { return uint64(t.u32(t.lines, uint64(8*i))) > offset },
	)
	if i == 0 || i > int(t.funcs) { // the last entry is the end of the text
		return nil
	}
	f := t.function(uint64(i - 1))
	if f == nil {
		return nil
	}
	return f.at(pc)
}

// function returns a function by its index, or nil if the table is damaged.
func (t *Table) function(i uint64) *goFunction {
	fn := uint64(t.u32(t.lines, 8*i+4))
	if fn+goFunc > uint64(len(t.lines)) {
		return nil
	}
	return &goFunction{t, t.lines[fn:], t.text + uint64(t.u32(t.lines, 8*i))}
}

func (t *Table) u32(b []byte, at uint64) uint32 {
	if at > uint64(len(b)) || uint64(len(b))-at < 4 {
		return ^uint32(0)
	}
	return t.order.Uint32(b[at:])
}

// text returns the string before the first NUL.
func text(b []byte, at uint64) string {
	const maxLength = 4096
	if at >= uint64(len(b)) {
		return ""
	}
	b = b[at:min(uint64(len(b)), at+maxLength)]
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

// name returns the name of a function at an offset.
func (t *Table) name(at uint32) string { return spec.Unescape(text(t.names, uint64(at))) }

// goFunction is a runtime._func, and the data after it.
type goFunction struct {
	*Table
	raw   []byte
	entry uint64
}

func (f *goFunction) field(i uint64) uint32 { return f.u32(f.raw, 4*i) }

// The words of a runtime._func.
const (
	wordName = 1
	wordFile = 5
	wordLine = 6
	wordPCs  = 7
	wordUnit = 8
	wordDecl = 9  // the line of the declaration
	flagAt   = 41 // the byte with the flags
)

// at returns the functions that are inlined at an address, and then the function itself.
func (f *goFunction) at(pc uint64) (all []Frame) {
	tree := f.tree()
	for len(tree) > 0 && len(all) < maxInlined {
		index := f.value(f.pcdata(pcInlined), pc)
		if index < 0 || uint64(index) >= uint64(len(tree))/inlinedCall {
			break
		}
		call := tree[uint64(index)*inlinedCall:]
		all = append(all, f.frame(f.u32(call, 4), pc))
		pc = f.entry + uint64(f.u32(call, 8))
	}
	fn := f.frame(f.field(wordName), pc)
	fn.Top = f.raw[flagAt]&flagTop != 0
	return append(all, fn)
}

func (f *goFunction) frame(name uint32, pc uint64) Frame {
	fn := Frame{Name: short(f.name(name))}
	line, file := f.value(f.field(wordLine), pc), f.value(f.field(wordFile), pc)
	if line > 0 && file >= 0 {
		if at := f.u32(f.units, 4*(uint64(f.field(wordUnit))+uint64(file))); at != ^uint32(0) {
			fn.File, fn.Line = text(f.files, uint64(at)), int(line)
		}
	}
	return fn
}

// short replaces type arguments by [...], as the runtime does in traces: main.Map[...].
func short(name string) string {
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if i < 0 || j < i {
		return name
	}
	return name[:i] + "[...]" + name[j+1:]
}

// pcdata returns the offset of a table of values by address, or 0 if there is none.
func (f *goFunction) pcdata(i uint64) uint32 {
	if i >= uint64(f.field(wordPCs)) {
		return 0
	}
	return f.u32(f.raw, goFunc+4*i)
}

// tree returns the table of calls that are inlined in the function.
func (f *goFunction) tree() []byte {
	count := uint64(f.raw[43])
	if dataInlined >= count {
		return nil
	}
	offset := f.u32(f.raw, goFunc+4*uint64(f.field(wordPCs))+4*dataInlined)
	if offset == ^uint32(0) || uint64(offset) >= uint64(len(f.inlined)) {
		return nil
	}
	return f.inlined[offset:]
}

// values yields the values of a table by address, with the address at which each ends.
func (f *goFunction) values(table uint32) iter.Seq2[uint64, int32] {
	return func(yield func(end uint64, value int32) bool) {
		if table == 0 || uint64(table) >= uint64(len(f.pcs)) {
			return
		}
		b, end, value := f.pcs[table:], f.entry, int32(-1)
		for first := true; ; first = false {
			delta, n := binary.Uvarint(b)
			if n <= 0 || delta == 0 && !first {
				return
			}
			step, m := binary.Uvarint(b[n:])
			if m <= 0 {
				return
			}
			b = b[n+m:]
			value += int32(uint32(delta)>>1) ^ -int32(delta&1)
			end += step * f.quantum
			if !yield(end, value) {
				return
			}
		}
	}
}

// value returns the value for an address in a table of values, or -1.
func (f *goFunction) value(table uint32, pc uint64) int32 {
	for end, value := range f.values(table) {
		if pc < end {
			return value
		}
	}
	return -1
}
