//go:build linux

package target

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestOwnProcess(t *testing.T) {
	finder := NewFinder()
	defer finder.Close()
	_, skipped, err := finder.Process(os.Getpid())
	assert.NoError(t, skipped)
	assert.NoError(t, err)
}

// TestFreeze: a frozen finder finds the files that are open, and reads no others.
func TestFreeze(t *testing.T) {
	provider := stapsdt.NewProvider("frozen")
	stapsdt.NewProbe0(provider, "p")
	require.NoError(t, provider.Load())
	defer provider.Close()
	for _, open := range []bool{false, true} {
		finder := NewFinder()
		defer finder.Close()
		if open {
			_, err := finder.Open(provider.Path())
			require.NoError(t, err)
		}
		finder.Freeze()
		uses, _, err := finder.Process(os.Getpid())
		require.NoError(t, err)
		require.Equal(t, open, len(uses) == 1, uses)
	}
}

// mapExecutable maps a file, and returns what unmaps it.
func mapExecutable(t *testing.T, file *os.File) (unmap func()) {
	t.Helper()
	memory, err := unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	require.NoError(t, err)
	return func() {
		require.NoError(t, unix.Munmap(memory))
	}
}

// TestKnows: the kernel and /proc call a file the same, so that one that is known is
// not looked at again.
func TestKnows(t *testing.T) {
	testenv.NeedsRoot(t)
	w, err := proc.NewWatcher()
	require.NoError(t, err)
	defer w.Close()
	path, err := filepath.EvalSymlinks("/bin/sh") // which was not written just now
	require.NoError(t, err)
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	f := NewFinder()
	defer f.Close()
	defer mapExecutable(t, file)()
	_, _, err = f.Process(os.Getpid())
	require.NoError(t, err)
	defer mapExecutable(t, file)()
	seen := false
	_, all := w.Mapped(func(int, *proc.Mapping) {}, func(pid int, m *proc.Mapping) bool {
		if m.Path == path {
			seen = true
			assert.True(t, f.Knows(pid, m), "%+v is not known", m)
			assert.False(t, f.Knows(pid, &proc.Mapping{File: proc.File{Device: m.Device, Inode: m.Inode + 1, Path: path}}), "another file is known")
		}
		return true
	})
	assert.True(t, seen || all, "the kernel does not tell, and other processes have not filled the ring")
}

// TestByFile: the mappings of a file are together, in the order of the files, and those of another path or inode apart.
func TestByFile(t *testing.T) {
	mapping := func(inode uint64, path string) proc.Mapping {
		return proc.Mapping{File: proc.File{Inode: inode, Path: path}}
	}
	a, b, c := mapping(1, "/a"), mapping(1, "/b"), mapping(2, "/b")
	require.Equal(t, [][]proc.Mapping{{a, a}, {b}, {c}}, byFile([]proc.Mapping{a, b, a, c}))
}

// TestOnce: of sites of one probe at one place, one is left, and each of another probe or place.
func TestOnce(t *testing.T) {
	site := func(provider, name string, offset uint64) sdt.Site {
		return sdt.Site{Provider: provider, Name: name, Offset: offset}
	}
	all := []sdt.Site{site("p", "a", 1), site("p", "b", 1), site("q", "a", 1), site("p", "a", 2)}
	require.Equal(t, all, once(slices.Concat(all, all, all[2:])))
}

// TestTwice: a semaphore is in a writable mapping, of which there is one in most processes, even if a page of the file is mapped
// more often.
func TestTwice(t *testing.T) {
	code := proc.Mapping{Start: 0x1000, End: 0x4000, Executable: true}
	data := proc.Mapping{Start: 0x4000, End: 0x5000, Offset: 0x2000, Writable: true}
	again := data
	again.Start, again.End = 0x14000, 0x15000
	for _, c := range []struct {
		semaphore uint64
		mappings  []proc.Mapping
		twice     bool
	}{
		{0x2010, []proc.Mapping{code, data}, false},
		{0x2010, []proc.Mapping{code, data, code, again}, true},
		{0x3000, []proc.Mapping{code, data, code, again}, false},
		{0, []proc.Mapping{code, data, code, again}, false},
	} {
		u := Use{Mappings: c.mappings}
		require.Equal(t, c.twice, u.Twice(&sdt.Site{SemaphoreOffset: c.semaphore}), c)
	}
}
