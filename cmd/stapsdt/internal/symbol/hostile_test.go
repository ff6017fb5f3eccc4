//go:build linux && (amd64 || arm64)

package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/elffile/sparse"
)

// TestLargePerfMaps: a map costs no more than some memory, and those of many processes no more than
// some together.
func TestLargePerfMaps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.map")
	var lines bytes.Buffer
	for i := 0; lines.Len() < maxPerfMap+1<<20; i++ {
		fmt.Fprintf(&lines, "%x 1 a\n", 1<<32+i)
	}
	if err := os.WriteFile(path, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	lines = bytes.Buffer{}
	before, start := heap(), time.Now()
	left := int64(maxPerfMaps)
	var maps []*perfMap
	for range 5 {
		p := &perfMap{path: path, total: &left}
		p.refresh(uint32(os.Getuid()))
		maps = append(maps, p)
	}
	if used := heap() - before; used > 256<<20 || time.Since(start) > 30*time.Second {
		t.Errorf("%d MB, %v", used>>20, time.Since(start))
	}
	if n := len(maps[0].funcs); n != maxJitted || len(maps[4].funcs) != 0 || left != 0 {
		t.Error(n, len(maps[4].funcs), left)
	}
	// A map that has become shorter gives back what it had.
	if err := os.WriteFile(path, []byte("1000 10 f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	maps[0].refresh(uint32(os.Getuid()))
	maps[4].refresh(uint32(os.Getuid()))
	if len(maps[0].funcs) != 1 || len(maps[4].funcs) != 1 || left != maxPerfMap-20 {
		t.Error(len(maps[0].funcs), len(maps[4].funcs), left)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSparseTables: tables that are as large as the file claims are not read, whatever they are for.
func TestSparseTables(t *testing.T) {
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64},
		elf.Section64{Type: uint32(elf.SHT_SYMTAB), Size: sparse.Size, Link: 3, Entsize: 24}, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: sparse.Size},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Size: sparse.Size})
	if _, err := file.WriteAt([]byte("\x00.gopclntab\x00"), 1<<20); err != nil {
		t.Fatal(err)
	}
	left := int64(maxTables)
	m := &Module{content: file, left: &left}
	sparse.Cost(t, func() {
		if fns := m.lookup(0x1000); fns != nil {
			t.Error(fns)
		}
	})
	if m.tables.file == nil {
		t.Error("the file was not read")
	}
}

// TestSharedNames: symbols whose names are the ends of one long name do not multiply it.
func TestSharedNames(t *testing.T) {
	const count, long = 20_000, 1 << 20
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64},
		elf.Section64{Type: uint32(elf.SHT_SYMTAB), Size: count * 24, Link: 3, Entsize: 24}, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: long},
		elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_EXECINSTR), Size: 1})
	var table bytes.Buffer
	for i := range uint64(count) {
		_ = binary.Write(&table, binary.LittleEndian, elf.Sym64{Name: uint32(i), Info: byte(elf.STT_FUNC), Shndx: 4, Value: i, Size: 1})
	}
	if _, err := file.WriteAt(append(table.Bytes(), bytes.Repeat([]byte{'n'}, long)...), 1<<20+64); err != nil {
		t.Fatal(err)
	}
	left := int64(maxTables)
	m := &Module{content: file, left: &left}
	sparse.Cost(t, func() {
		if s := m.read().symbol(7); s == nil || len(s.name) > 8<<10 {
			t.Error("no symbol, or a long name")
		}
	})
}

// TestTableBudget: nothing is read of more files when enough was read.
func TestTableBudget(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	for _, left := range []int64{maxTables, 1 << 12} {
		budget := left
		m := &Module{content: exe, left: &budget}
		if got := m.read().go_ != nil; got != (left == maxTables) || budget < 0 {
			t.Error(left, got, budget)
		}
	}
}
