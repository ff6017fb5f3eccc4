//go:build linux

package tracetest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"golang.org/x/sys/unix"
)

// LockMachine waits until no other process has done so, and keeps others waiting until this one ends. It is for a TestMain
// whose tests trace all processes of the machine.
func LockMachine() error {
	// A descriptor, and no os.File, which would be closed when nothing refers to it.
	lock, err := unix.Open(filepath.Join(os.TempDir(), "stapsdt-test-machine.lock"), unix.O_CREAT|unix.O_RDONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Flock(lock, unix.LOCK_EX)
}

// ProcessorTime returns the processor time that the threads of a process have used, but for threads that have ended.
func ProcessorTime(t testing.TB, pid int) (sum time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, path := range threads {
		var ran time.Duration
		if _, err := fmt.Sscan(read(t, path), &ran); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		sum += ran
	}
	return sum
}

// NeedUprobes is [testenv.Needs] for the kernel's uprobe PMU, and for root, without which it is of no use.
func NeedUprobes(t testing.TB) {
	t.Helper()
	_, err := os.Stat(uprobePMU)
	testenv.NeedsRoot(t)
	testenv.Needs(t, "uprobes", err)
}

// ReadMapped reads the memory of a process at the place where it executes a file's offset: the instruction bytes of a
// site, with whatever a tracer patched there. It fails when the process does not map that place executable.
func ReadMapped(pid int, path string, offset uint64, buf []byte) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		var (
			start, end, from, inode uint64
			perms, device           string
		)
		line := lines.Text()
		n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d", &start, &end, &perms, &from, &device, &inode)
		if n != 6 || !strings.Contains(perms, "x") || !strings.HasSuffix(line, " "+path) {
			continue
		}
		if offset < from || offset-from >= end-start {
			continue
		}
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return err
		}
		defer mem.Close()
		_, err = mem.ReadAt(buf, int64(start+offset-from))
		return err
	}
	return fmt.Errorf("process %d does not map %s+%#x executable", pid, path, offset)
}

// Must returns the value of a call that must not fail, as in Must(os.ReadFile(path))(t).
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
