//go:build linux

package target

import (
	"debug/elf"
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSparseSymbols: operands that name many symbols, in tables that claim to be large, cost little.
func TestSparseSymbols(t *testing.T) {
	for _, size := range []uint64{sparse.Size, 32 << 20} {
		f := &File{content: &Content{file: sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64},
			elf.Section64{Type: uint32(elf.SHT_SYMTAB), Size: size, Link: 3, Entsize: 24}, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: size})}}
		site := sdt.Site{Offset: 0x1000}
		for i := range 1000 {
			site.Args = append(site.Args, sdt.Arg{Size: 8, Operand: sdt.Operand{Kind: sdt.OperandMemory, Symbol: fmt.Sprint("foo", i)}})
		}
		sparse.Cost(t, func() { f.Deltas(&site) })
		for _, a := range site.Args {
			require.Error(t, a.Err)
		}
		if size < sparse.Size {
			assert.ErrorContains(t, site.Args[999].Err, "too many symbols")
		}
	}
}

// TestSparseNames: names of sections that claim to be large are not read.
func TestSparseNames(t *testing.T) {
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: sparse.Size})
	sparse.Cost(t, func() {
		_, err := goidOffset(file, noDebug)
		assert.Error(t, err)
		assert.False(t, onlyDebugging(file))
	})
}
