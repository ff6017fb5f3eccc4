//go:build linux

package target

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestParseSpec: a specification has a file, a provider and a probe, and only the file may
// contain colons.
func TestParseSpec(t *testing.T) {
	for text, want := range map[string]Spec{
		"a:b":              {Provider: "a", Probe: "b"},
		"/bin/x:a:b":       {File: "/bin/x", Provider: "a", Probe: "b"},
		"/odd:name/x:a:b*": {File: "/odd:name/x", Provider: "a", Probe: "b*"},
		"*:*":              {Provider: "*", Probe: "*"},
	} {
		got, err := ParseSpec(text)
		want.text = text
		assert.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
	}
	for _, text := range []string{"", "a", "a:", ":b", "::b", ":a:b", "a:[b", "[:b", "x:a:"} {
		got, err := ParseSpec(text)
		assert.Error(t, err, "%q: %+v", text, got)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		spec, provider, probe string
		want                  bool
	}{
		{"a:b", "a", "b", true},
		{"a:b", "a", "bb", false},
		{"*:b*", "anything", "b__start", true},
		{"?:[a-c]", "x", "b", true},
		{"?:[a-c]", "x", "d", false},
		{"*:*", "with/slash", "a/b", true},
		{"with/*:a", "with/slash", "a", true},
	} {
		s, err := ParseSpec(c.spec)
		assert.NoError(t, err, c)
		assert.Equal(t, c.want, s.Match(c.provider, c.probe), c)
	}
}

func TestParseMapping(t *testing.T) {
	m, ok := parseMapping([]byte("7f1c2a000000-7f1c2a001000 r-xp 00001000 fe:01 12345      /a b (deleted)"))
	want := Mapping{Start: 0x7f1c2a000000, End: 0x7f1c2a001000, Offset: 0x1000, Executable: true, Device: 0xfe01, Inode: 12345, Path: "/a b (deleted)"}
	assert.True(t, ok, m)
	assert.Equal(t, want, m)
	for _, line := range []string{
		"", "x", "7f1c2a000000-7f1c2a001000 r-xp 00000000 00:00",
		"7f1c2a000000 r-xp 00000000 00:00 1          /a",
		"7f1c2a000000-7f1c2a001000 r-xp 0000000y 00:00 1          /a",
		"7f1c2a000000-7f1c2a001000 r 00000000 00:00 1          /a",
	} {
		m, ok := parseMapping([]byte(line))
		assert.False(t, ok, "%q: %+v", line, m)
	}
}

// TestParseAnonymous: memory that is not of a file, with and without a name.
func TestParseAnonymous(t *testing.T) {
	for line, want := range map[string]Mapping{
		"7f1c2a000000-7f1c2a001000 rw-p 00000000 00:00 0":                 {Start: 0x7f1c2a000000, End: 0x7f1c2a001000},
		"7f1c2a000000-7f1c2a001000 rwxp 00000000 00:00 0 ":                {Start: 0x7f1c2a000000, End: 0x7f1c2a001000, Executable: true},
		"7f1c2a000000-7f1c2a001000 r-xp 00000000 00:00 0          [vdso]": {Start: 0x7f1c2a000000, End: 0x7f1c2a001000, Executable: true, Path: "[vdso]"},
	} {
		m, ok := parseMapping([]byte(line))
		assert.True(t, ok, "%q: %+v", line, m)
		assert.Equal(t, want, m, line)
		assert.False(t, m.IsFile(), "%q: %+v", line, m)
	}
}

func TestOwnProcess(t *testing.T) {
	mappings, err := Mappings(os.Getpid())
	require.NoError(t, err)
	require.NotEmpty(t, mappings)
	assert.True(t, Alive(os.Getpid()), "Alive is wrong")
	assert.False(t, Alive(1<<30), "Alive is wrong")
	finder := NewFinder()
	defer finder.Close()
	_, skipped, err := finder.Process(os.Getpid())
	assert.NoError(t, skipped)
	assert.NoError(t, err)
}

func TestTypeName(t *testing.T) {
	char := &sdt.Type{Kind: sdt.KindChar, Name: "char", Size: 1}
	for want, arg := range map[string]sdt.Arg{
		"int32":         {Size: 4, Signed: true},
		"uint64":        {Size: 8},
		"float64":       {Size: 8, Signed: true, Float: true},
		"unknown":       {},
		"string":        {Size: 8, Type: &sdt.Type{Kind: sdt.KindPointer, Elem: char}},
		"time.Duration": {Size: 8, Type: &sdt.Type{Name: "time.Duration", Kind: sdt.KindInt, Size: 8}},
	} {
		assert.Equal(t, want, TypeName(arg), arg)
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string]string{"0": "[0]", "0-2": "[0 1 2]", "0-1,4,6-7": "[0 1 4 6 7]"} {
		got, err := parseCPUs(list)
		assert.NoError(t, err, list)
		assert.Equal(t, want, fmt.Sprint(got), list)
	}
	for _, list := range []string{"", "x", "3-1", "-1", "0-", "0-99999999"} {
		got, err := parseCPUs(list)
		assert.Error(t, err, "%q: %v", list, got)
	}
}

// TestWatcher: the ring wraps around many times, and nothing of this process is missed.
func TestWatcher(t *testing.T) {
	testenv.NeedsRoot(t)
	// On one processor, so that there is one ring. The thread ends with the test.
	runtime.LockOSThread()
	var one, allowed unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &allowed))
	for cpu := 0; one.Count() == 0; cpu++ {
		if allowed.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	w, err := NewWatcher()
	require.NoError(t, err)
	defer w.Close()
	file, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer file.Close()
	none := func(int, *Mapping) bool { return false }
	for i := range 3000 {
		if i == 1000 { // meanwhile, more than a ring has space for
			for range 2000 {
				mapExecutable(t, file)()
			}
			w.Mapped(none)
			mapExecutable(t, file)() // the kernel says so when there is space again
			_, all := w.Mapped(none)
			assert.True(t, all, "nothing was lost")
		}
		mapExecutable(t, file)()
		pids, all := w.Mapped(none)
		if !all {
			require.Contains(t, pids, os.Getpid(), i)
		}
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

// TestWatcherFile: the kernel and /proc call a file the same, so that one that is known is
// not looked at again.
func TestWatcherFile(t *testing.T) {
	testenv.NeedsRoot(t)
	w, err := NewWatcher()
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
	_, all := w.Mapped(func(pid int, m *Mapping) bool {
		if m.Path == path {
			seen = true
			assert.True(t, f.Knows(pid, m), "%+v is not known", m)
			assert.False(t, f.Knows(pid, &Mapping{Device: m.Device, Inode: m.Inode + 1, Path: path}), "another file is known")
		}
		return true
	})
	assert.True(t, seen || all, "the kernel does not tell, and other processes have not filled the ring")
}

// TestOnce: of sites of one probe at one place, one is left, and each of another probe or place.
func TestOnce(t *testing.T) {
	site := func(provider, name string, offset uint64) sdt.Site {
		return sdt.Site{Provider: provider, Name: name, Offset: offset}
	}
	all := []sdt.Site{site("p", "a", 1), site("p", "b", 1), site("q", "a", 1), site("p", "a", 2)}
	require.Equal(t, all, once(slices.Concat(all, all, all[2:])))
}
