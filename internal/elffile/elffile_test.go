package elffile

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSparseNames: names of sections, as large as the file claims, are not read.
func TestSparseNames(t *testing.T) {
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: sparse.Size})
	sparse.Cost(t, func() {
		_, err := New(file)
		assert.Error(t, err)
	})
}

// TestSharedNames: sections that share one long name do not multiply it.
func TestSharedNames(t *testing.T) {
	const long = 100 << 10
	sections := make([]elf.Section64, 200)
	sections[0] = elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: long}
	file := sparse.File(t, sections...)
	_, err := file.WriteAt(bytes.Repeat([]byte{'n'}, long), 1<<20)
	require.NoError(t, err)
	used := sparse.Allocated(func() {
		f, err := New(file)
		require.NoError(t, err)
		require.Len(t, f.Sections[1].Name, long)
	})
	require.Less(t, used, uint64(20*long))
}

// TestCompressedNames: names that are much larger than the file are not expanded.
func TestCompressedNames(t *testing.T) {
	names := binary.LittleEndian.AppendUint64(nil, uint64(elf.COMPRESS_ZLIB))
	names = binary.LittleEndian.AppendUint64(names, 32<<20)
	b := bytes.NewBuffer(binary.LittleEndian.AppendUint64(names, 1))
	w := zlib.NewWriter(b)
	_, err := w.Write(make([]byte, 32<<20))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Flags: uint64(elf.SHF_COMPRESSED), Size: uint64(b.Len())})
	_, err = file.WriteAt(b.Bytes(), 1<<20)
	require.NoError(t, err)
	_, err = New(file)
	require.ErrorIs(t, err, errTooLarge)
}

// TestOldCompression: sections of the name .zdebug_info are expanded, unless they are much larger
// than the file, or larger than the limit.
func TestOldCompression(t *testing.T) {
	for _, c := range []struct {
		claimed, content int
		fits             bool
	}{{5000, 5000, true}, {5000, 6000, true}, {1 << 40, 5000, false}, {32 << 20, 32 << 20, false}} {
		content := make([]byte, c.content)
		for i := range min(len(content), 6000) {
			content[i] = byte(i * i >> 3)
		}
		b := bytes.NewBuffer(binary.BigEndian.AppendUint64([]byte("ZLIB"), uint64(c.claimed)))
		w := zlib.NewWriter(b)
		_, err := w.Write(content)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64},
			elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Size: uint64(b.Len())})
		_, err = file.WriteAt([]byte("\x00.zdebug_info\x00"), 1<<20)
		require.NoError(t, err)
		_, err = file.WriteAt(b.Bytes(), 1<<20+64)
		require.NoError(t, err)
		f, err := New(file)
		require.NoError(t, err)
		sparse.Cost(t, func() {
			s := DebugSection(f, ".debug_info")
			require.NotNil(t, s)
			for range 2 {
				data, err := Data(s, 64<<20)
				require.Equal(t, c.fits, err == nil, err)
				if c.fits {
					require.Equal(t, content[:c.claimed], data)
				}
				_, err = Data(s, uint64(c.claimed-1))
				require.Error(t, err)
			}
		})
	}
}

// changing is a file whose headers change after the first read.
type changing struct {
	io.ReaderAt
	reads int
}

func (c *changing) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	if c.reads++; c.reads == 1 {
		binary.LittleEndian.PutUint16(p[58:], 0) // e_shentsize
	}
	return n, err
}

// TestChangedHeaders: a file that changes while it is read is one file or an error.
func TestChangedHeaders(t *testing.T) {
	_, err := New(&changing{ReaderAt: sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64})})
	require.Error(t, err)
}

// TestManySegments: a file with more segments than real ones have is refused.
func TestManySegments(t *testing.T) {
	for _, n := range []int{maxSegments, maxSegments + 1} {
		var b bytes.Buffer
		head := elf.Header64{Type: uint16(elf.ET_DYN), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(n)}
		copy(head.Ident[:], elf.ELFMAG+"\x02\x01\x01")
		require.NoError(t, binary.Write(&b, binary.LittleEndian, head))
		for range n {
			require.NoError(t, binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD)}))
		}
		_, err := New(bytes.NewReader(b.Bytes()))
		require.Equal(t, n > maxSegments, err != nil, err)
	}
}

// TestSparseSymbols: a table that is as large as the file claims is not read, or not kept.
func TestSparseSymbols(t *testing.T) {
	for _, table := range []uint64{sparse.Size, maxTable} {
		file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64},
			elf.Section64{Type: uint32(elf.SHT_SYMTAB), Size: table, Link: 3, Entsize: symbolSize}, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: table})
		sparse.Cost(t, func() {
			f, err := New(file)
			require.NoError(t, err)
			_, read, err := Symbol(f, "foo")
			assert.Error(t, err)
			assert.LessOrEqual(t, read, uint64(2*maxTable))
			_, err = Data(f.Sections[2], 1<<20)
			assert.Error(t, err)
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
	for i, value := range []uint64{7, 8, 9, 9} { // twice of several sources, and aliases
		name := []string{"twice\x00", "alias\x00"}[i/2]
		add(uint32(len(names)), 1, elf.STT_OBJECT, value)
		names = append(names, name...)
	}
	add(uint32(len(names))-uint32(len("alias\x00")), elf.SHN_ABS, elf.STT_FILE, 0)
	file := sparse.File(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 64},
		elf.Section64{Type: uint32(elf.SHT_SYMTAB), Size: uint64(len(table)), Link: 3, Entsize: symbolSize}, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: uint64(len(names))})
	_, err := file.WriteAt(append(table, names...), 1<<20+64)
	require.NoError(t, err)
	f, err := New(file)
	require.NoError(t, err)
	for i := uint64(0); i < count; i += count/20 - 1 {
		got, _, err := Symbol(f, fmt.Sprint("some_symbol_", i))
		assert.NoError(t, err)
		assert.Equal(t, i, got)
	}
	got, _, err := Symbol(f, "symbol_0")
	assert.NoError(t, err)
	assert.Equal(t, uint64(1<<40), got)
	got, _, err = Symbol(f, "alias")
	assert.NoError(t, err)
	assert.Equal(t, uint64(9), got)
	_, _, err = Symbol(f, "twice")
	assert.EqualError(t, err, `several symbols of the file are named "twice"`)
	for _, name := range []string{"undefined", "local", "some_symbol", "ymbol_1"} {
		got, _, err := Symbol(f, name)
		assert.Error(t, err, "%v %v", name, got)
	}
}
