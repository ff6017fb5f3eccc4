//go:build linux && (amd64 || arm64)

package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLargePerfMaps: of a map, no more than maxPerfMap is read and no more than maxJitted functions are kept, and of those of many
// processes, no more than maxPerfMaps is read together.
func TestLargePerfMaps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.map")
	var lines bytes.Buffer
	for i := 0; lines.Len() < maxPerfMap+1<<20; i++ {
		fmt.Fprintf(&lines, "%x 1 a\n", 1<<32+i)
	}
	require.NoError(t, os.WriteFile(path, lines.Bytes(), 0o600))
	lines = bytes.Buffer{}
	before := heap()
	left := int64(maxPerfMaps)
	var maps []*perfMap
	for range 5 {
		p := &perfMap{path: path, total: &left}
		p.refresh(uint32(os.Getuid()))
		maps = append(maps, p)
	}
	if !testing.Short() { // a measurement
		testenv.Figure(t, "heap of the largest perf maps", float64(heap()-before)/(1<<20), 256, "MB")
	}
	for i, want := range []int{maxPerfMap, maxPerfMap, 0, 0, 0} {
		assert.EqualValues(t, want, maps[i].taken)
		assert.Len(t, maps[i].funcs, min(want, maxJitted))
	}
	assert.Zero(t, left)
	// A map that has become shorter gives back what it had.
	require.NoError(t, os.WriteFile(path, []byte("1000 10 f\n"), 0o600))
	maps[0].refresh(uint32(os.Getuid()))
	maps[4].refresh(uint32(os.Getuid()))
	if assert.Len(t, maps[0].funcs, 1) {
		assert.Len(t, maps[4].funcs, 1)
		assert.Equal(t, int64(maxPerfMap-20), left)
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
	_, err := file.WriteAt([]byte("\x00.gopclntab\x00"), 1<<20)
	require.NoError(t, err)
	left := int64(maxTables)
	m := &Module{content: file, left: &left}
	sparse.Cost(t, func() {
		assert.Nil(t, m.lookup(0x1000))
	})
	assert.NotNil(t, m.tables.file, "the file was not read")
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
	_, err := file.WriteAt(append(table.Bytes(), bytes.Repeat([]byte{'n'}, long)...), 1<<20+64)
	require.NoError(t, err)
	left := int64(maxTables)
	m := &Module{content: file, left: &left}
	sparse.Cost(t, func() {
		if s := m.read().symbol(7); assert.NotNil(t, s) {
			assert.LessOrEqual(t, len(s.name), 8<<10)
		}
	})
}

// TestLongDemangled: demangling a short name that stands for a very long one allocates at most 64 MB.
func TestLongDemangled(t *testing.T) {
	name := "_Z1f1AIiiE"
	for i := range 23 {
		part := "S" + strings.ToUpper(strconv.FormatInt(int64(i), 36)) + "_"
		name += "S_I" + part + part + "E"
	}
	sparse.Cost(t, func() {
		got := demangled(name)
		assert.True(t, strings.HasPrefix(got, "f(A<int, int>, A<A<int, int>, A<int, int> >, "), got[:min(len(got), 100)])
		assert.Equal(t, 8<<10, len(got))
		assert.Equal(t, "shop::order(int)", demangled("_ZN4shop5orderEi"))
	})
}

// TestTableBudget: nothing is read of more files when enough was read.
func TestTableBudget(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer exe.Close()
	for _, left := range []int64{maxTables, 1 << 12} {
		budget := left
		m := &Module{content: exe, left: &budget}
		got := m.read().go_ != nil
		assert.Equal(t, left == maxTables, got, left)
		assert.GreaterOrEqual(t, budget, int64(0), left)
	}
}

// faltering is a file whose file system does not answer some reads, by their numbers.
type faltering struct {
	io.ReaderAt
	silent func(read int) bool
	reads  int
}

func (f *faltering) ReadAt(p []byte, off int64) (int, error) {
	if f.reads++; f.silent != nil && f.silent(f.reads) {
		return 0, stall.Err
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestTablesLater: tables that could not be read are read again.
func TestTablesLater(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer exe.Close()
	left := int64(maxTables)
	first := func(read int) bool { return read > 10 && read < 14 } // after those of the headers
	m := &Module{content: &faltering{ReaderAt: exe, silent: first}, left: &left}
	require.Nil(t, m.read().go_)
	require.NotNil(t, m.read().go_)
	require.Same(t, m.read(), m.read())
}

// TestKnownFunctions: the functions at an address are read once, and reading them costs nothing of
// what other files may need.
func TestKnownFunctions(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer exe.Close()
	left := int64(maxTables)
	file := &faltering{ReaderAt: exe}
	m := &Module{content: file, left: &left}
	require.NotNil(t, m.read().go_)
	assert.LessOrEqual(t, left, maxTables-m.read().go_.Memory())
	spent := left
	at := uint64(0)
	require.NoError(t, m.read().go_.Functions(0, nil, func(f gotable.Function) bool {
		at = f.Entry
		return f.Name != "runtime.mallocgc"
	}))
	first := m.lookup(at)
	require.Len(t, first, 1)
	require.Equal(t, "runtime.mallocgc", first[0].Name)
	reads := file.reads
	first[0].Name = "the caller's own"
	assert.Equal(t, "runtime.mallocgc", m.lookup(at)[0].Name)
	assert.Equal(t, reads, file.reads)
	assert.Equal(t, spent, left)
}
