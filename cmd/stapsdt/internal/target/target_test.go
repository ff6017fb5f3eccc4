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
	"golang.org/x/sys/unix"
)

func TestParseSpec(t *testing.T) {
	for text, want := range map[string]Spec{
		"a:b":              {Provider: "a", Probe: "b"},
		"/bin/x:a:b":       {File: "/bin/x", Provider: "a", Probe: "b"},
		"/odd:name/x:a:b*": {File: "/odd:name/x", Provider: "a", Probe: "b*"},
		"*:*":              {Provider: "*", Probe: "*"},
	} {
		got, err := ParseSpec(text)
		want.text = text
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "a:", ":b", "::b", ":a:b", "a:[b", "[:b", "x:a:"} {
		if got, err := ParseSpec(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
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
		if err != nil || s.Match(c.provider, c.probe) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestParseMapping(t *testing.T) {
	m, ok := parseMapping([]byte("7f1c2a000000-7f1c2a001000 r-xp 00001000 fe:01 12345      /a b (deleted)"))
	want := Mapping{Start: 0x7f1c2a000000, End: 0x7f1c2a001000, Offset: 0x1000, Executable: true, Device: 0xfe01, Inode: 12345, Path: "/a b (deleted)"}
	if !ok || m != want {
		t.Errorf("%+v", m)
	}
	for _, line := range []string{
		"", "x", "7f1c2a000000-7f1c2a001000 r-xp 00000000 00:00",
		"7f1c2a000000 r-xp 00000000 00:00 1          /a",
		"7f1c2a000000-7f1c2a001000 r-xp 0000000y 00:00 1          /a",
		"7f1c2a000000-7f1c2a001000 r 00000000 00:00 1          /a",
	} {
		if m, ok := parseMapping([]byte(line)); ok {
			t.Errorf("%q: %+v", line, m)
		}
	}
}

// TestParseAnonymous: memory that is not of a file, with and without a name.
func TestParseAnonymous(t *testing.T) {
	for line, want := range map[string]Mapping{
		"7f1c2a000000-7f1c2a001000 rw-p 00000000 00:00 0":                 {Start: 0x7f1c2a000000, End: 0x7f1c2a001000},
		"7f1c2a000000-7f1c2a001000 rwxp 00000000 00:00 0 ":                {Start: 0x7f1c2a000000, End: 0x7f1c2a001000, Executable: true},
		"7f1c2a000000-7f1c2a001000 r-xp 00000000 00:00 0          [vdso]": {Start: 0x7f1c2a000000, End: 0x7f1c2a001000, Executable: true, Path: "[vdso]"},
	} {
		if m, ok := parseMapping([]byte(line)); !ok || m != want || m.IsFile() {
			t.Errorf("%q: %+v", line, m)
		}
	}
}

func TestOwnProcess(t *testing.T) {
	mappings, err := Mappings(os.Getpid())
	if err != nil || len(mappings) == 0 {
		t.Fatal(mappings, err)
	}
	if !Alive(os.Getpid()) || Alive(1<<30) {
		t.Error("Alive is wrong")
	}
	finder := NewFinder()
	defer finder.Close()
	if _, skipped, err := finder.Process(os.Getpid()); skipped != nil || err != nil {
		t.Error(skipped, err)
	}
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
		if got := TypeName(arg); got != want {
			t.Errorf("%+v: %s", arg, got)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string]string{"0": "[0]", "0-2": "[0 1 2]", "0-1,4,6-7": "[0 1 4 6 7]"} {
		if got, err := parseCPUs(list); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
	for _, list := range []string{"", "x", "3-1", "-1", "0-", "0-99999999"} {
		if got, err := parseCPUs(list); err == nil {
			t.Errorf("%q: %v", list, got)
		}
	}
}

// TestWatcher: the ring wraps around many times, and nothing of this process is missed.
func TestWatcher(t *testing.T) {
	testenv.NeedsRoot(t)
	// On one processor, so that there is one ring. The thread ends with the test.
	runtime.LockOSThread()
	var one, allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if allowed.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	none := func(int, *Mapping) bool { return false }
	for i := range 3000 {
		if i == 1000 { // meanwhile, more than a ring has space for
			for range 2000 {
				mapExecutable(t, file)()
			}
			w.Mapped(none)
			mapExecutable(t, file)() // the kernel says so when there is space again
			if _, all := w.Mapped(none); !all {
				t.Error("nothing was lost")
			}
		}
		mapExecutable(t, file)()
		if pids, all := w.Mapped(none); !slices.Contains(pids, os.Getpid()) && !all {
			t.Fatalf("%d: %v", i, pids)
		}
	}
}

// mapExecutable maps a file, and returns what unmaps it.
func mapExecutable(t *testing.T, file *os.File) (unmap func()) {
	t.Helper()
	memory, err := unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Munmap(memory); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWatcherFile: the kernel and /proc call a file the same, so that one that is known is
// not looked at again.
func TestWatcherFile(t *testing.T) {
	testenv.NeedsRoot(t)
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	path, err := filepath.EvalSymlinks("/bin/sh") // which was not written just now
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f := NewFinder()
	defer f.Close()
	defer mapExecutable(t, file)()
	if _, _, err := f.Process(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	defer mapExecutable(t, file)()
	seen := false
	w.Mapped(func(pid int, m *Mapping) bool {
		if m.Path == path {
			seen = true
			if !f.Knows(pid, m) {
				t.Errorf("%+v is not known", m)
			}
			if other := (Mapping{Device: m.Device, Inode: m.Inode + 1, Path: path}); f.Knows(pid, &other) {
				t.Error("another file is known")
			}
		}
		return true
	})
	if !seen {
		t.Error("the kernel does not tell")
	}
}
