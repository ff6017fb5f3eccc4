//go:build linux

package target

import (
	"debug/elf"
	"fmt"

	"github.com/go-stapsdt/stapsdt/sdt"
)

// symbols finds the addresses that operands name.
type symbols struct {
	file   *elf.File
	values map[string]uint64
}

// Deltas returns for each argument of a probe the distance from the site to the symbol that
// the argument's operand names, and 0 if it names none. A symbol that the file does not have
// any more is the argument's error.
func (f *File) Deltas(p *sdt.Site) []int64 {
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

func (f *File) delta(offset uint64, symbol string) (int64, error) {
	if f.symbols == nil {
		s, err := readSymbols(f.file)
		if err != nil {
			return 0, fmt.Errorf("look for the symbol %s: %w", symbol, err)
		}
		f.symbols = s
	}
	value, ok := f.symbols.values[symbol]
	if !ok {
		return 0, fmt.Errorf("the symbol %s is not in the file, which is stripped", symbol)
	}
	for _, p := range f.symbols.file.Progs {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset-p.Off < p.Filesz {
			return int64(value - (p.Vaddr + offset - p.Off)), nil
		}
	}
	return 0, fmt.Errorf("the site at %#x is not loaded", offset)
}

func readSymbols(r interface {
	ReadAt([]byte, int64) (int, error)
}) (*symbols, error) {
	file, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	s := &symbols{file: file, values: map[string]uint64{}}
	dynamic, _ := file.DynamicSymbols()
	static, _ := file.Symbols()
	for _, sym := range append(dynamic, static...) {
		if sym.Section != elf.SHN_UNDEF && elf.ST_TYPE(sym.Info) != elf.STT_TLS {
			s.values[sym.Name] = sym.Value
		}
	}
	return s, nil
}
