//go:build linux

package symbol

import (
	"debug/elf"
	"errors"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

const (
	// maxDebugFiles is the maximum number of separate files with DWARF that stay open.
	maxDebugFiles = 256
	// maxDescribed is the maximum number of addresses of a module whose functions are kept.
	maxDescribed = 1 << 14
)

// sources limit the DWARF of all modules together.
type sources struct {
	budget *source.Budget
	files  int // that may still be opened
}

func newSources() *sources { return &sources{source.NewBudget(), maxDebugFiles} }

// sourceTable is the DWARF of a module, which is read at the first lookup.
type sourceTable struct {
	sought bool
	table  *source.Table // nil without DWARF
	file   *debugfile.File
	known  map[uint64][]Function
}

// close closes the separate file.
func (s *sourceTable) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}

// described returns the functions at an address as DWARF has them, the inlined ones first, or nil.
// program is the file, or nil if it could not be read.
func (m *Module) described(program *elf.File, address uint64) []Function {
	known, ok := m.source.known[address]
	if ok {
		return known
	}
	table := m.sourceTable(program)
	if table == nil {
		return nil
	}
	frames, err := table.Lookup(address)
	if err != nil { // the file system may answer later
		return nil
	}
	var fns []Function
	for _, f := range frames {
		fn := Function{Name: demangled(f.Name), File: f.File, Line: f.Line, top: isTop[f.Name]}
		fns = append(fns, fn)
	}
	if m.source.known == nil || len(m.source.known) == maxDescribed {
		m.source.known = map[uint64][]Function{}
	}
	m.source.known[address] = fns
	return fns
}

// sourceTable returns the DWARF of the file or of its separate file, or nil.
func (m *Module) sourceTable(program *elf.File) *source.Table {
	s := &m.source
	if s.sought || m.sources == nil || program == nil {
		return s.table
	}
	err := s.open(m, program)
	s.sought = !errors.Is(err, stall.Err)
	return s.table
}

func (s *sourceTable) open(m *Module, program *elf.File) error {
	if debuginfo.In(program) {
		f, err := elffile.New(m.content) // m.left is for tables
		if err == nil {
			s.table = source.New(f, m.sources.budget)
		}
		return err
	}
	if m.debug == nil || m.sources.files == 0 {
		return nil
	}
	file, err := m.debug(program, debugfile.DWARF)
	if err != nil {
		return err
	}
	m.sources.files--
	s.file, s.table = file, source.New(file.ELF, m.sources.budget)
	return nil
}
