package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// MemoryGroup is a control group, of either version, that counts the memory of its processes and of
// those in the groups below it.
type MemoryGroup struct {
	// Directory is its directory. A process enters it by writing to Procs.
	Directory string
	// Unified means that it is one of version 2.
	Unified bool
}

// NeedsMemoryGroup is [NeedsMachine] for control groups that count memory, and [NeedsRoot]. It
// returns one of that name, which is removed when the test is over.
func NeedsMemoryGroup(t testing.TB, name string) *MemoryGroup {
	t.Helper()
	NeedsRoot(t)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	root := memoryRoot(string(mounts))
	if root == nil {
		NeedsMachine(t, "control groups that count memory", errNotMounted, errNotMounted)
	}
	// A container may see them without the right to change them, or, in version 2, with processes
	// in what it takes for the root.
	g, err := root.add(t, name)
	NeedsMachine(t, "control groups of memory that can be made", err, unix.EROFS, unix.EACCES, unix.EPERM, unix.EBUSY)
	if g.Unified {
		_, err := os.Stat(filepath.Join(g.Directory, "memory.peak"))
		NeedsMachine(t, "control groups that know the peak of their memory", err, unix.ENOENT)
	}
	return g
}

// memoryRoot returns the root of the groups that count memory, or nil.
func memoryRoot(mounts string) *MemoryGroup {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		switch kind := fields[2]; kind {
		case "cgroup":
			if strings.Contains(","+fields[3]+",", ",memory,") {
				return &MemoryGroup{Directory: fields[1]}
			}
		case "cgroup2":
			controllers, _ := os.ReadFile(filepath.Join(fields[1], "cgroup.controllers"))
			if strings.Contains(" "+strings.TrimSpace(string(controllers))+" ", " memory ") {
				return &MemoryGroup{Directory: fields[1], Unified: true}
			}
		}
	}
	return nil
}

// Add adds a group below this one, which is removed when the test is over.
func (g *MemoryGroup) Add(t testing.TB, name string) *MemoryGroup {
	t.Helper()
	below, err := g.add(t, name)
	if err != nil {
		t.Fatal(err)
	}
	return below
}

func (g *MemoryGroup) add(t testing.TB, name string) (*MemoryGroup, error) {
	if g.Unified {
		if err := g.write("cgroup.subtree_control", "+memory"); err != nil {
			return nil, err
		}
	}
	below := &MemoryGroup{Directory: filepath.Join(g.Directory, name), Unified: g.Unified}
	if err := os.Mkdir(below.Directory, 0o755); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		// A process that was killed is in its group until it has ended.
		for end := time.Now().Add(Patience); ; time.Sleep(time.Millisecond) {
			err := unix.Rmdir(below.Directory)
			if err == nil || err == unix.ENOENT {
				return
			}
			if time.Now().After(end) {
				t.Errorf("remove %s: %v", below.Directory, err)
				return
			}
		}
	})
	return below, nil
}

// Procs is the file by which a process enters the group.
func (g *MemoryGroup) Procs() string { return filepath.Join(g.Directory, "cgroup.procs") }

// SetLimit limits the memory of the group, which does not swap.
func (g *MemoryGroup) SetLimit(t testing.TB, bytes int64) {
	t.Helper()
	limit, swap, none := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes
	if g.Unified {
		limit, swap, none = "memory.max", "memory.swap.max", 0
	}
	if err := g.write(limit, strconv.FormatInt(bytes, 10)); err != nil {
		t.Fatal(err)
	}
	err := g.write(swap, strconv.FormatInt(none, 10))
	if err != nil && !errors.Is(err, unix.ENOENT) { // a kernel without swap
		t.Fatal(err)
	}
}

// Limit returns the limit that SetLimit has set.
func (g *MemoryGroup) Limit(t testing.TB) int64 {
	t.Helper()
	return g.number(t, "memory.limit_in_bytes", "memory.max")
}

// Usage returns the memory that is charged to the group.
func (g *MemoryGroup) Usage(t testing.TB) int64 {
	t.Helper()
	return g.number(t, "memory.usage_in_bytes", "memory.current")
}

// Peak returns the most memory that was ever charged to the group.
func (g *MemoryGroup) Peak(t testing.TB) int64 {
	t.Helper()
	return g.number(t, "memory.max_usage_in_bytes", "memory.peak")
}

// Killed returns how many processes of the group, not of groups below it, the kernel has killed
// because of a limit.
func (g *MemoryGroup) Killed(t testing.TB) (n int) {
	t.Helper()
	name := "memory.oom_control"
	if g.Unified {
		name = "memory.events.local"
	}
	_, after, ok := strings.Cut("\n"+g.read(t, name), "\noom_kill ")
	if _, err := fmt.Sscan(after, &n); !ok || err != nil {
		t.Fatalf("%s of %s has no oom_kill: %v", name, g.Directory, err)
	}
	return n
}

func (g *MemoryGroup) number(t testing.TB, first, unified string) int64 {
	t.Helper()
	if g.Unified {
		first = unified
	}
	n, err := strconv.ParseInt(strings.TrimSpace(g.read(t, first)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (g *MemoryGroup) read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.Directory, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// write writes to a file of the group, which the kernel has made.
func (g *MemoryGroup) write(name, text string) error {
	f, err := os.OpenFile(filepath.Join(g.Directory, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
