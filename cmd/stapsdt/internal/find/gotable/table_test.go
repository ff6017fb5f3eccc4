package gotable

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/elffile/sparse"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// own returns the table of this program.
func own(t testing.TB) *Table {
	t.Helper()
	f, err := elf.Open("/proc/self/exe")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	table, err := New(f)
	require.NoError(t, err)
	return table
}

// TestGoTableLies: nothing that a table says makes this program fail.
func TestGoTableLies(t *testing.T) {
	table := own(t)
	lines := table.lines.from(0, 1<<16)[:1<<16]
	for i := range 200 {
		// A function's entry is followed by what is known of it.
		broken := slices.Clone(lines)
		for at := i; at < len(broken); at += 97 {
			broken[at] ^= byte(0x55 + i)
		}
		lie := *table
		lie.lines = newPart(table.order, bytes.NewReader(broken), 0, uint64(len(broken)))
		lie.index, lie.funcs = lie.lines, min(table.funcs, uint64(len(broken)/8)-1)
		if i%2 == 0 {
			lie.pcs = newPart(table.order, bytes.NewReader(table.pcs.from(0, i)[:i]), 0, 1<<20)
			lie.names = newPart(table.order, bytes.NewReader(table.names.from(0, i)[:i]), 0, 1<<20)
		}
		for pc := table.text; pc < table.text+1<<16; pc += 509 {
			lie.Lookup(pc)
		}
		names, err := lie.Names(func([]byte) bool { return true })
		require.Equal(t, i%2 == 0, err != nil, err)
		_, _ = lie.Inlined(names)
		_ = lie.Functions(release(t), names, func(Function) bool { return true })
	}
}

// counter counts the bytes that are read from a file, and the file ends after some bytes.
type counter struct {
	io.ReaderAt
	read, end int64
}

func (c *counter) ReadAt(p []byte, off int64) (n int, err error) {
	n, err = c.ReaderAt.ReadAt(p[:max(0, min(int64(len(p)), c.end-off))], off)
	if c.read += int64(n); n < len(p) && err == nil {
		err = io.EOF
	}
	return n, err
}

// opened returns this program and what counts how much is read of it.
func opened(t testing.TB) (*elf.File, *counter) {
	t.Helper()
	file, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	c := &counter{ReaderAt: file, end: 1 << 40}
	f, err := elf.NewFile(c)
	require.NoError(t, err)
	return f, c
}

// TestReads: looking for a function by its name reads nothing twice, and keeps little.
func TestReads(t *testing.T) {
	f, c := opened(t)
	size := int64(section(f).Size)
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W != 0 {
			size += int64(p.Filesz)
		}
	}
	size += int64(f.Section(".rodata").Size)
	used := sparse.Allocated(func() {
		table, err := New(f)
		require.NoError(t, err)
		names, err := table.Names(func(name []byte) bool { return string(name) == "runtime.mallocgc" })
		require.NoError(t, err)
		found := 0
		require.NoError(t, table.Functions(release(t), names, func(fn Function) bool {
			found++
			return assert.Equal(t, "runtime.mallocgc", fn.Name)
		}))
		assert.Equal(t, 1, found)
		calls, err := table.Inlined(names)
		assert.NoError(t, err)
		assert.Empty(t, calls)
		assert.Less(t, table.Memory(), int64(7*pageSize*pageCount+1))
	})
	assert.Less(t, c.read, size+size/4)
	assert.Less(t, used, uint64(8<<20))
}

// TestShort: a file that is too short is an error, whenever it has become so.
func TestShort(t *testing.T) {
	f, c := opened(t)
	s := section(f)
	c.end = int64(s.Offset + s.Size - 1)
	_, err := New(f)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	c.end = 1 << 40
	table, err := New(f)
	require.NoError(t, err)
	all := func([]byte) bool { return true }
	c.end = int64(s.Offset + pageSize)
	_, err = table.Names(all)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	err = table.Functions(release(t), nil, func(Function) bool { return true })
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = table.Inlined(nil)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Empty(t, table.Lookup(table.text+1<<20))
	c.end = 1 << 40
	_, err = table.Names(all)
	assert.NoError(t, err)
	assert.NotEmpty(t, table.Lookup(table.text+1<<20))
}

// TestPart: a part returns what it has at each offset, also across the ends of pages.
func TestPart(t *testing.T) {
	const size = pageCount*pageSize + 2*pageSize + 100
	content := make([]byte, size+10)
	for i := range content {
		content[i] = byte(i*7 + i>>8)
	}
	p := newPart(binary.LittleEndian, bytes.NewReader(content), 10, size)
	content = content[10:]
	for at := uint64(0); at < size+pageSize; at += 1021 {
		for _, wanted := range []int{1, 4, 12, maxText, pageSize + 1} {
			got, rest := p.from(at, wanted), content[min(at, size):]
			require.GreaterOrEqual(t, len(got), min(wanted, len(rest)))
			require.True(t, bytes.Equal(rest[:len(got)], got), at)
		}
	}
	assert.Equal(t, ^uint32(0), p.u32(size-3))
	assert.NoError(t, p.err)
}
