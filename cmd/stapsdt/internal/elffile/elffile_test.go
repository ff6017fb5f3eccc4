package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/elffile/sparse"
)

// TestSparseNames: names of sections, as large as the file claims, are not read.
func TestSparseNames(t *testing.T) {
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: sparse.Size})
	sparse.Cost(t, func() {
		if _, err := New(file); err == nil {
			t.Error("no error")
		}
	})
}

// TestSharedNames: sections that share one long name do not multiply it.
func TestSharedNames(t *testing.T) {
	sections := make([]elf.Section64, 60000)
	sections[0] = elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 2 << 20}
	file := sparse.File(t, sections...)
	long := bytes.Repeat([]byte{'n'}, 1<<20)
	if _, err := file.WriteAt(long, 1<<20); err != nil {
		t.Fatal(err)
	}
	sparse.Cost(t, func() {
		if _, err := New(file); err == nil {
			t.Error("no error")
		}
	})
}

// TestSparseSymbols: a table that is as large as the file claims is not read, or not kept.
func TestSparseSymbols(t *testing.T) {
	for _, table := range []uint64{sparse.Size, maxTable} {
		file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64},
			elf.Section64{Type: uint32(elf.SHT_SYMTAB), Size: table, Link: 3, Entsize: symbolSize}, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: table})
		sparse.Cost(t, func() {
			f, err := New(file)
			if err != nil {
				t.Fatal(err)
			}
			if _, read, err := Symbol(f, "foo"); err == nil || read > 2*maxTable {
				t.Error(read, err)
			}
			if _, err := Data(f.Sections[2], 1<<20); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestSymbol finds symbols in tables of several blocks, and those whose names others end in.
func TestSymbol(t *testing.T) {
	names, table := []byte{0}, make([]byte, symbolSize)
	add := func(name uint32, section elf.SectionIndex, kind elf.SymType, value uint64) {
		table = binary.LittleEndian.AppendUint32(table, name)
		table = append(table, elf.ST_INFO(elf.STB_GLOBAL, kind), 0)
		table = binary.LittleEndian.AppendUint16(table, uint16(section))
		table = binary.LittleEndian.AppendUint64(table, value)
		table = binary.LittleEndian.AppendUint64(table, 0)
	}
	const count = 200_000
	for i := range uint64(count) {
		add(uint32(len(names)), 1, elf.STT_OBJECT, i)
		names = fmt.Appendf(names, "some_symbol_%d\x00", i)
	}
	add(1+uint32(len("some_")), 1, elf.STT_OBJECT, 1<<40) // symbol_0
	add(uint32(len(names)), elf.SHN_UNDEF, elf.STT_OBJECT, 7)
	names = append(names, "undefined\x00"...)
	add(uint32(len(names)), 1, elf.STT_TLS, 7)
	names = append(names, "local\x00"...)
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64},
		elf.Section64{Type: uint32(elf.SHT_SYMTAB), Size: uint64(len(table)), Link: 3, Entsize: symbolSize}, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: uint64(len(names))})
	if _, err := file.WriteAt(append(table, names...), 1<<20+64); err != nil {
		t.Fatal(err)
	}
	f, err := New(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(0); i < count; i += count/20 - 1 {
		if got, _, err := Symbol(f, fmt.Sprint("some_symbol_", i)); err != nil || got != i {
			t.Errorf("%d: %d, %v", i, got, err)
		}
	}
	if got, _, err := Symbol(f, "symbol_0"); err != nil || got != 1<<40 {
		t.Error(got, err)
	}
	for _, name := range []string{"undefined", "local", "some_symbol", "ymbol_1"} {
		if got, _, err := Symbol(f, name); err == nil {
			t.Error(name, got)
		}
	}
}
