//go:build linux

package proc

import (
	"io"
	"os"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// counted counts the reads of a memory that begins at a start. Reads end with an error at an
// address.
type counted struct {
	bytes  []byte
	start  int64
	broken int64 // a page, or 0
	err    error
	reads  int
	read   int // in bytes
}

func (c *counted) ReadAt(p []byte, at int64) (n int, err error) {
	c.reads++
	page := int64(os.Getpagesize())
	n = copy(p, c.bytes[at-c.start:])
	if c.broken != 0 && at < c.broken+page && at+int64(n) > c.broken {
		n, err = int(max(c.broken-at, 0)), c.err
	}
	c.read += n
	return n, err
}

// file is a file in memory.
type file []byte

func (f file) ReadAt(p []byte, at int64) (int, error) {
	n := copy(p, f[min(at, int64(len(f))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// TestTraced: the sites of a page are read at once, and no page without sites. A page that cannot
// be read hides only its own sites, and memory that does not answer is not asked again.
func TestTraced(t *testing.T) {
	const start = 1 << 40
	page := uint64(os.Getpagesize())
	content := make(file, 100*page)
	mappings := []Mapping{
		{Start: 1, End: 1 + 100*page}, // as data
		{Start: start, End: start + 40*page, Offset: 2 * page, Executable: true},
	}
	patched := append([]byte(nil), content[2*page:]...)
	var offsets []uint64
	for at := 2 * page; at < 42*page; at += 16 {
		if at < 10*page || at >= 20*page { // some pages have no sites
			offsets = append([]uint64{at}, offsets...)
		}
	}
	patched[16], patched[20*page] = 0xcc, 0xcc
	offsets = append(offsets, 0, 42*page, 1000*page) // not mapped as code, or not in the file
	sites := len(offsets) - 3
	at := func(memory *counted) map[uint64]bool {
		memory.bytes, memory.start = patched, start
		return traced(memory, content, mappings, offsets)
	}
	memory := &counted{}
	all := at(memory)
	require.Len(t, all, sites)
	for offset, is := range all {
		require.Equal(t, offset == 2*page+16 || offset == 22*page, is, "%#x", offset)
	}
	require.LessOrEqual(t, memory.reads, 2+int(32*page/maxNear))
	require.LessOrEqual(t, memory.read, int(30*page))

	memory = &counted{broken: int64(start + 20*page), err: unix.EIO}
	all = at(memory)
	require.Len(t, all, sites-int(page/16))
	require.NotContains(t, all, 22*page)
	require.Contains(t, all, 23*page)
	require.LessOrEqual(t, memory.reads, 4+int(32*page/maxNear))

	memory = &counted{broken: start, err: stall.Err}
	require.Empty(t, at(memory))
	require.Equal(t, 1, memory.reads)
}
