//go:build linux

package target

import (
	"debug/elf"
	"os"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// TestMoved: memory without a file has moved code if it is where the process would execute a site, and the file is not.
func TestMoved(t *testing.T) {
	page := uint64(os.Getpagesize())
	segments := []elf.ProgHeader{
		{Flags: elf.PF_R, Off: 0, Vaddr: 0, Filesz: page},
		{Flags: elf.PF_R | elf.PF_X, Off: page, Vaddr: 2 * page, Filesz: 2 * page},
	}
	at := func(pages uint64) proc.Mapping {
		return proc.Mapping{Start: pages * page, End: (pages + 1) * page, Executable: true}
	}
	head, code := at(10), at(12)
	head.Executable = false
	code.Offset, code.End = page, code.End+page
	for _, c := range []struct {
		files, copies []proc.Mapping
		moved         bool
	}{
		{[]proc.Mapping{head, code}, nil, false},
		{[]proc.Mapping{head, code}, []proc.Mapping{at(11), at(14)}, false},
		{[]proc.Mapping{head}, []proc.Mapping{at(11), at(12)}, true},
		{[]proc.Mapping{head}, []proc.Mapping{at(11), at(13)}, false}, // another part was moved
		{[]proc.Mapping{head, code}, []proc.Mapping{at(12)}, false},   // it has mapped the code elsewhere
		{nil, []proc.Mapping{at(12)}, false},
	} {
		f := &File{Path: "/app", Probes: []sdt.Site{{Offset: page + 5}}, segments: segments}
		require.Equal(t, c.moved, f.noteMoved(7, c.files, c.copies), c)
		require.Equal(t, c.moved, f.Moves != nil)
	}
}

// TestHugifies: whether a program of BOLT moves its code depends on its options, the kernel and the setting.
func TestHugifies(t *testing.T) {
	const always, never = "[always] madvise never\n", "always madvise [never]\n"
	for _, c := range []struct {
		options, setting, release string
		moves                     bool
	}{
		{"--hugify", always, "6.18.44", false},
		{"--hugify", always, "5.9.1", true},
		{"--hugify", never, "6.18.44", true},
		{"-hugify=1", never, "6.18.44", true},
		{"--hugify=false", never, "6.18.44", false},
		{"--hugify --hugify-all-text", always, "6.18.44", true},
		{"--hugify-all-text", never, "6.18.44", false},
		{"--hot-text", never, "5.9.1", false},
		{"-o a--hugify", never, "5.9.1", false},
	} {
		info := "\x04\x00GNU\x00BOLT revision: 1, command line: llvm-bolt " + c.options + "\x00"
		require.Equal(t, c.moves, hugifies(info, c.setting, c.release), c)
	}
}

// TestMovedCosts: a process with many mappings of a file with many sites and segments does not keep
// others waiting. A product of these would take hours.
func TestMovedCosts(t *testing.T) {
	page := uint64(os.Getpagesize())
	f := &File{Probes: make([]sdt.Site, 1<<16)}
	for i := range f.Probes {
		f.Probes[i].Offset = 1000 * page
	}
	for i := range uint64(256) {
		f.segments = append(f.segments, elf.ProgHeader{Flags: elf.PF_R | elf.PF_X, Vaddr: i * page, Filesz: 1 << 40})
	}
	var files, copies []proc.Mapping
	for i := range uint64(1 << 16) {
		files = append(files, proc.Mapping{Start: 2 * i * page, End: (2*i + 1) * page})
		copies = append(copies, proc.Mapping{Start: (2*i + 1) * page, End: (2*i + 2) * page, Executable: true})
	}
	require.False(t, f.moved(files, copies))
}
