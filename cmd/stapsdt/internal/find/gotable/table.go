// Package gotable reads the function table of a Go program. Every Go program has one, even if it is
// stripped.
package gotable

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// Table finds Go functions, and the functions that are inlined in them, in the runtime's pclntab,
// in the format of Go 1.20 (runtime/symtab.go, symtabinl.go). debug/gosym reads the pclntab too,
// but no inlined functions, and its caller must know the start of the text, which a stripped
// program has only in the runtime's moduledata.
//
// A Table reads the file when it is asked, and keeps little of it. It must be used by one goroutine
// at a time, while the file is open.
type Table struct {
	order   binary.ByteOrder
	quantum uint64 // the unit of differences between addresses
	text    uint64 // the address of the first function
	funcs   uint64 // the number of functions
	names   *part
	units   *part
	files   *part
	pcs     *part // tables of values by address
	index   *part // a table of the functions
	lines   *part // the same, and their runtime._func structs
	inlined *part // the base of funcdata offsets, or nil if it was not found
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
	moduleSize   = 512 // more than the offsets of all fields that are read
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

// maxPart is the maximum size of a part of a file. The largest Go programs have tables of some
// 100 MB.
const maxPart = 128 << 20

// New finds the table of a file. The error is ErrNoTable, ErrFormat, or a read error.
func New(f *elf.File) (*Table, error) {
	if !Has(f) {
		return nil, ErrNoTable
	}
	s := section(f)
	head, err := header(s)
	if err != nil {
		return nil, fmt.Errorf("section %.32q: %w", s.Name, err)
	}
	if f.Class != elf.ELFCLASS64 || s.Size < goHeader || f.ByteOrder.Uint32(head) != goMagic ||
		head[7] != 8 {
		return nil, ErrFormat
	}
	word := func(at int) uint64 { return f.ByteOrder.Uint64(head[at:]) }
	t := &Table{order: f.ByteOrder, quantum: uint64(head[6]), funcs: word(8)}
	parts := []**part{&t.names, &t.units, &t.files, &t.pcs, &t.lines}
	for i, to := range parts {
		offset, end := word(32+8*i), s.Size
		if offset > s.Size {
			return nil, ErrFormat
		}
		for other := range parts {
			if o := word(32 + 8*other); o > offset {
				end = min(end, o)
			}
		}
		*to = newPart(t.order, s, offset, end-offset)
	}
	t.index = newPart(t.order, s, word(64), t.lines.size)
	if t.funcs == 0 || t.funcs > t.lines.size/8 || !t.locate(f, s) {
		return nil, ErrFormat
	}
	return t, nil
}

// header returns the beginning of a section with a table. It fails unless the file has all of it.
func header(s *elf.Section) (head []byte, err error) {
	if s.Size > maxPart || s.Type == elf.SHT_NOBITS {
		return nil, fmt.Errorf("%d bytes exceed the limit of %d", s.Size, maxPart)
	}
	head = make([]byte, goHeader)
	if err = readFull(s, make([]byte, 1), s.Size-1); err == nil {
		err = readFull(s, head[:min(s.Size, goHeader)], 0)
	}
	return head, err
}

func readFull(r io.ReaderAt, b []byte, at uint64) error {
	n, err := r.ReadAt(b, int64(at))
	switch {
	case n == len(b):
		return nil
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// Memory returns the maximum number of bytes that the table keeps of the file.
func (t *Table) Memory() (n int64) {
	for _, p := range []*part{t.names, t.units, t.files, t.pcs, t.index, t.lines, t.inlined} {
		n += p.memory()
	}
	return n
}

// locate finds the moduledata, which begins with the address of the table, and reads the start of
// the text from it.
func (t *Table) locate(f *elf.File, s *elf.Section) bool {
	m := &memory{file: f}
	t.memory = m
	for _, at := range m.pointersTo(s.Addr) {
		m.relocate(at)
		text, ok := m.pointer(at + moduleText)
		if !ok || !m.contains(text, elf.PF_X) {
			continue
		}
		if first, ok := m.pointer(at + moduleFirst); !ok || first != text+uint64(t.index.u32(0)) {
			continue
		}
		t.text = text
		if types, ok := m.pointer(at + moduleTypes); ok && m.contains(types, 0) {
			t.types = types
		}
		if at, ok := m.goFunc(at, s); ok {
			t.inlined = m.part(at)
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

// Lookup returns the functions at an address, the inlined ones first. There are none if the file
// cannot be read.
func (t *Table) Lookup(pc uint64) []Frame {
	if f := t.find(pc); f != nil {
		return f.at(pc)
	}
	return nil
}

// find returns the function that contains an address, or nil.
func (t *Table) find(pc uint64) *goFunction {
	if pc < t.text {
		return nil
	}
	offset := pc - t.text
	i := sort.Search(
		int(t.funcs)+1, func(i int) bool { return uint64(t.index.u32(uint64(8*i))) > offset },
	)
	if i == 0 || i > int(t.funcs) { // the last entry is the end of the text
		return nil
	}
	f := &goFunction{Table: t}
	if !f.read(uint64(i - 1)) {
		return nil
	}
	return f
}

// read reads a function by its index. It fails if the table is damaged.
func (f *goFunction) read(i uint64) bool {
	b := f.index.from(8*i, 12)
	if len(b) < 12 {
		return false
	}
	f.entry, f.end = f.text+uint64(f.order.Uint32(b)), f.text+uint64(f.order.Uint32(b[8:]))
	f.place = uint64(f.order.Uint32(b[4:]))
	return copy(f.raw[:], f.lines.from(f.place, goFunc)) == goFunc
}

// goFunction is a runtime._func, and the data after it.
type goFunction struct {
	*Table
	raw        [goFunc]byte
	place      uint64 // of raw in lines
	entry, end uint64
}

func (f *goFunction) field(i uint64) uint32 { return f.order.Uint32(f.raw[4*i:]) }

// The words of a runtime._func.
const (
	wordName = 1
	wordFile = 5
	wordLine = 6
	wordPCs  = 7
	wordUnit = 8
	wordDecl = 9  // the line of the declaration
	flagAt   = 41 // the byte with the flags
	dataAt   = 43 // the byte with the number of funcdata offsets
)

// at returns the functions that are inlined at an address, and then the function itself.
func (f *goFunction) at(pc uint64) (all []Frame) {
	for name, at := range f.calls(pc) {
		all = append(all, f.frame(name, at))
	}
	all[len(all)-1].Top = f.raw[flagAt]&flagTop != 0
	return all
}

// calls yields the names of the functions that are inlined at an address, and the addresses of
// their calls, and then those of the function itself.
func (f *goFunction) calls(pc uint64) iter.Seq2[uint32, uint64] {
	return func(yield func(name uint32, pc uint64) bool) {
		tree, hasTree := f.tree()
		for n := 0; hasTree && n < maxInlined; n++ {
			index := f.value(f.pcdata(pcInlined), pc)
			if index < 0 {
				break
			}
			call := f.inlined.from(tree+uint64(index)*inlinedCall, inlinedCall)
			if len(call) < inlinedCall {
				break
			}
			name, parent := f.order.Uint32(call[4:]), f.order.Uint32(call[8:])
			if !yield(name, pc) {
				return
			}
			pc = f.entry + uint64(parent)
		}
		yield(f.field(wordName), pc)
	}
}

func (f *goFunction) frame(name uint32, pc uint64) Frame {
	fn := Frame{Name: Short(f.Name(name))}
	line, file := f.value(f.field(wordLine), pc), f.value(f.field(wordFile), pc)
	if at, ok := f.pathAt(file); ok && line > 0 {
		fn.File, fn.Line = f.files.text(uint64(at)), int(line)
	}
	return fn
}

// pathAt returns the place in files of the path of a file of the function's unit.
func (f *goFunction) pathAt(number int32) (at uint32, ok bool) {
	if number < 0 {
		return 0, false
	}
	at = f.units.u32(4 * (uint64(f.field(wordUnit)) + uint64(number)))
	return at, at != ^uint32(0)
}

// Short replaces type arguments by [...], as the runtime does in traces: main.Map[...].
func Short(name string) string {
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if i < 0 || j < i {
		return name
	}
	return name[:i] + "[...]" + name[j+1:]
}

// maxTables is the maximum number of tables of values of a function. The compiler makes five.
const maxTables = 64

// pcdata returns the offset of a table of values by address, or 0 if there is none.
func (f *goFunction) pcdata(i uint64) uint32 {
	if n := uint64(f.field(wordPCs)); i >= n || n > maxTables {
		return 0
	}
	return f.lines.u32(f.place + goFunc + 4*i)
}

// tree returns the place of the table of calls that are inlined in the function.
func (f *goFunction) tree() (at uint64, ok bool) {
	count, tables := uint64(f.raw[dataAt]), uint64(f.field(wordPCs))
	if dataInlined >= count || tables > maxTables || f.inlined == nil {
		return 0, false
	}
	offset := f.lines.u32(f.place + goFunc + 4*tables + 4*dataInlined)
	return uint64(offset), offset != ^uint32(0) && uint64(offset) < f.inlined.size
}

// maxValues is the maximum number of values of a table. A function can have one for each
// instruction.
const maxValues = 1 << 20

// values yields the values of a table by address, with the address at which each ends.
func (f *goFunction) values(table uint32) iter.Seq2[uint64, int32] {
	return func(yield func(end uint64, value int32) bool) {
		const pair = 2 * binary.MaxVarintLen32
		if table == 0 {
			return
		}
		at, end, value := uint64(table), f.entry, int32(-1)
		var b []byte
		for n := range maxValues {
			if len(b) < pair {
				b = f.pcs.from(at, pair)
			}
			delta, i := binary.Uvarint(b)
			if i <= 0 || delta == 0 && n > 0 {
				return
			}
			step, j := binary.Uvarint(b[i:])
			if j <= 0 {
				return
			}
			at, b = at+uint64(i+j), b[i+j:]
			value += int32(uint32(delta)>>1) ^ -int32(delta&1)
			end += step * f.quantum
			if !yield(end, value) || end >= f.end {
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
