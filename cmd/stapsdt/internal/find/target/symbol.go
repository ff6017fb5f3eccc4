//go:build linux

package target

import (
	"debug/elf"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// maxSearched is the maximum number of bytes of a file's tables that are read to find the symbols
// of its operands. It limits the cost of a file whose operands name many symbols.
const maxSearched = 256 << 20

// symbols finds the addresses of the symbols that operands name.
type symbols struct {
	file   *elf.File
	found  map[string]symbol
	budget uint64 // number of bytes that may still be read
}

type symbol struct {
	value uint64
	err   error
}

// Deltas returns for each argument of a probe the distance from the site to the symbol that
// the argument's operand names, and 0 if it names none. If the file no longer has the symbol,
// the argument has an error. Deltas also sets the names and types of the arguments.
func (f *File) Deltas(p *sdt.Site) []int64 {
	defer f.owner.charge(time.Now())
	f.describe(p)
	deltas := make([]int64, len(p.Args))
	for i := range p.Args {
		a := &p.Args[i]
		if a.Err != nil || a.Operand.Symbol == "" {
			continue
		}
		delta, err := f.delta(p.Offset, a.Operand.Symbol)
		if err != nil {
			a.Err = err
		}
		deltas[i] = delta
	}
	return deltas
}

func (f *File) delta(offset uint64, name string) (int64, error) {
	if f.symbols == nil {
		file, err := elffile.New(f.content)
		if err != nil {
			return 0, fmt.Errorf("look for the symbol %.64q: %w", name, err)
		}
		f.symbols = &symbols{file: file, found: map[string]symbol{}, budget: maxSearched}
	}
	value, err := f.symbols.value(name)
	if err != nil {
		return 0, err
	}
	for _, p := range f.symbols.file.Progs {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset-p.Off < p.Filesz {
			return int64(value - (p.Vaddr + offset - p.Off)), nil
		}
	}
	return 0, fmt.Errorf("the site at %#x is not loaded", offset)
}

func (s *symbols) value(name string) (uint64, error) {
	if known, ok := s.found[name]; ok {
		return known.value, known.err
	}
	if s.budget == 0 {
		return 0, fmt.Errorf("look for the symbol %.64q: the file's operands name too many symbols", name)
	}
	value, read, err := elffile.Symbol(s.file, name)
	s.budget -= min(s.budget, max(read, 1<<12))
	s.found[name] = symbol{value, err}
	return value, err
}
