//go:build linux

package symbol

import (
	"cmp"
	"debug/elf"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// Module is a file that processes have mapped, or the vDSO. Its tables are read at the first
// lookup of one of its addresses.
type Module struct {
	// Path is the path that a process sees.
	Path string

	content io.ReaderAt // nil if it could not be opened
	left    *int64      // the number of bytes that may still be read from this and other modules
	close   func() error
	tables  *tables
	// debug finds a separate file. It is nil without a file.
	debug   func(*elf.File, debugfile.Content) (*debugfile.File, error)
	sources *sources // nil if DWARF is not read
	source  sourceTable
	// known are the Go functions at addresses.
	known map[uint64][]Function
}

// tables are the tables that map the addresses of a file.
type tables struct {
	file    *elf.File
	go_     *gotable.Table // nil without Go
	symbols []elfSymbol
	buildID string
	isImage bool
}

type elfSymbol struct {
	start, size uint64
	name        string
	// last is the largest end of this symbol and all before it, so that the search for a symbol
	// that encloses an address can end.
	last uint64
	weak bool
}

// Name returns the last part of the path.
func (m *Module) Name() string {
	return base(strings.TrimSuffix(m.Path, proc.Deleted))
}

// BuildID returns the build ID in hexadecimal, or "".
func (m *Module) BuildID() string { return m.read().buildID }

// Segment returns the executable part of the file that contains an address: its own
// address, its end, and its offset in the file.
func (m *Module) Segment(address uint64) (start, end, offset uint64) {
	for _, p := range m.progs() {
		if address >= p.Vaddr && address-p.Vaddr < p.Memsz {
			return p.Vaddr, p.Vaddr + p.Memsz, p.Off
		}
	}
	return 0, 0, 0
}

func (m *Module) progs() (all []*elf.Prog) {
	if f := m.read().file; f != nil {
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
				all = append(all, p)
			}
		}
	}
	return all
}

// read returns the tables of the file. Tables that could not be read are read again by the next
// call.
func (m *Module) read() *tables {
	if m.tables != nil {
		return m.tables
	}
	t, in := &tables{}, &budget{ReaderAt: m.content, left: m.left}
	if m.content != nil {
		t.read(in, m.debug)
	}
	in.spent = true
	if !in.stalled {
		m.tables = t
	}
	return t
}

// read reads the tables. debug finds the file with the symbols that were stripped, unless it is
// nil.
func (t *tables) read(
	in *budget, debug func(*elf.File, debugfile.Content) (*debugfile.File, error),
) {
	f, err := elffile.New(in)
	if err != nil {
		return
	}
	t.file = f
	// without it, symbols are used
	if t.go_, _ = gotable.New(f); t.go_ != nil && !in.spend(t.go_.Memory()) {
		t.go_ = nil
	}
	t.isImage = f.Section(".symtab") == nil && f.Section(".init") == nil && f.Section(".plt") == nil
	t.buildID = hex.EncodeToString(debugfile.BuildID(f))
	files := []*elf.File{f}
	if debug != nil && !debugfile.Symbols.In(f) {
		if symbols, err := debug(f, debugfile.Symbols); err == nil {
			defer symbols.Close()
			if more, err := elffile.New(&budget{ReaderAt: symbols, left: in.left}); err == nil {
				files = append(files, more)
			}
		}
	}
	t.symbols = elfSymbols(files...)
}

// budget reads a file, until the number of bytes left for it and other files is used up.
type budget struct {
	io.ReaderAt
	left    *int64
	spent   bool // whether all that will be kept was counted, so that reading more is free
	stalled bool // whether the file system did not answer
}

// spend takes bytes from the budget, and reports whether there were as many.
func (b *budget) spend(n int64) bool {
	if *b.left < n {
		return false
	}
	*b.left -= n
	return true
}

func (b *budget) ReadAt(p []byte, off int64) (n int, err error) {
	if !b.spent && !b.spend(int64(len(p))) {
		return 0, errors.New("the tables of the files are too large")
	}
	n, err = b.ReaderAt.ReadAt(p, off)
	b.stalled = b.stalled || errors.Is(err, stall.Err)
	return n, err
}

// Limits for files with wrong sizes: of the symbols or their names, and of all files together.
const (
	maxSymbols = 48 << 20
	maxTables  = 512 << 20
)

// address converts an offset in the file to an address of the file.
func (m *Module) address(offset uint64) (uint64, bool) {
	for _, p := range m.progs() {
		if offset >= p.Off && offset-p.Off < p.Filesz {
			return p.Vaddr + offset - p.Off, true
		}
	}
	return offset, false
}

// lookup returns the functions at one of the file's addresses, the inlined ones first.
func (m *Module) lookup(address uint64) []Function {
	t := m.read()
	if fns := m.goFunctions(address); fns != nil {
		return slices.Clone(fns)
	}
	fns := slices.Clone(m.described(t.file, address))
	s := t.symbol(address)
	switch n := len(fns); {
	case s != nil && n == 0:
		return []Function{{Name: demangled(s.name), top: isTop[s.name]}}
	case s != nil:
		fns[n-1].Name, fns[n-1].top = demangled(s.name), isTop[s.name]
	case n > 0 && fns[n-1].Name == "":
		return nil
	}
	return fns
}

// goFunctions returns the Go functions at an address, or nil.
func (m *Module) goFunctions(address uint64) []Function {
	if fns := m.known[address]; fns != nil || m.read().go_ == nil {
		return fns
	}
	var fns []Function
	frames := m.read().go_.Lookup(address)
	if n := len(frames); n == 0 || frames[n-1].Name == "" {
		return nil
	}
	for _, f := range frames {
		fns = append(fns, Function{Name: f.Name, File: f.File, Line: f.Line, top: f.Top})
	}
	if m.known == nil || len(m.known) == maxDescribed {
		m.known = map[uint64][]Function{}
	}
	m.known[address] = fns
	return fns
}

// isTop is the set of functions of C libraries at which threads start.
var isTop = map[string]bool{
	"_start": true, "__libc_start_main": true, "__libc_start_main_impl": true, "__libc_start_call_main": true, "start_thread": true,
	"clone": true, "__clone": true, "clone3": true, "__clone3": true, "thread_start": true,
}

// symbol returns the symbol that contains an address.
func (t *tables) symbol(address uint64) *elfSymbol {
	i := sort.Search(len(t.symbols), func(i int) bool { return t.symbols[i].start > address })
	for i--; i >= 0; i-- {
		s := &t.symbols[i]
		if address < s.start+s.size {
			return s
		}
		if address >= s.last {
			break
		}
	}
	return nil
}

// elfSymbols returns the functions in the symbol tables of a file and of the file with its debug
// symbols, sorted by address.
func elfSymbols(files ...*elf.File) (all []elfSymbol) {
	for _, f := range files {
		for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
			// Symbols that were read before an error are kept.
			_ = elffile.Symbols(f, kind, maxSymbols, func(s *elf.Symbol) {
				if isFunction(f, s) {
					all = append(all, elfSymbol{
						start: s.Value, size: s.Size, name: s.Name,
						weak: elf.ST_BIND(s.Info) != elf.STB_GLOBAL,
					})
				}
			})
		}
	}
	return sortSymbols(all)
}

// isFunction reports whether a symbol is a function or a label in assembly. On ARM, symbols with a
// $ mark code and data instead.
func isFunction(f *elf.File, s *elf.Symbol) bool {
	switch elf.ST_TYPE(s.Info) {
	case elf.STT_FUNC, elf.STT_NOTYPE, elf.STT_GNU_IFUNC:
		return s.Section != elf.SHN_UNDEF && int(s.Section) < len(f.Sections) &&
			f.Sections[s.Section].Flags&elf.SHF_EXECINSTR != 0 &&
			s.Name != "" &&
			s.Name[0] != '$'
	}
	return false
}

// sortSymbols sorts symbols by address, and keeps one at each.
func sortSymbols(all []elfSymbol) []elfSymbol {
	// At the same address, prefer a global name, and then a short one.
	slices.SortFunc(all, func(a, b elfSymbol) int {
		return cmp.Or(
			cmp.Compare(a.start, b.start),
			compareBool(a.size == 0, b.size == 0),
			compareBool(a.weak, b.weak),
			cmp.Compare(len(a.name), len(b.name)),
			cmp.Compare(a.name, b.name),
		)
	})
	all = slices.CompactFunc(all, func(a, b elfSymbol) bool { return a.start == b.start })
	last := uint64(0)
	for i := range all {
		s := &all[i]
		if s.size == 0 && i+1 < len(all) { // a label in assembly: it extends to the next symbol
			s.size = all[i+1].start - s.start
		}
		if s.start+s.size < s.start {
			s.size = 0
		}
		last = max(last, s.start+s.size)
		s.last = last
	}
	return all
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// isSite reports whether an address is the site of a probe in an image.
func (m *Module) isSite(address uint64, probe string) bool {
	t := m.read()
	if !t.isImage {
		return false
	}
	s := t.symbol(address)
	return s != nil && s.start == address && s.name == probe
}

func (m *Module) isLibc() bool {
	name := m.Name()
	return strings.HasPrefix(name, "libc.so") || strings.HasPrefix(name, "libc-") || strings.HasPrefix(name, "ld-musl-")
}
