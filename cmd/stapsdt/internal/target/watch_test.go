//go:build linux

package target

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"golang.org/x/sys/unix"
)

// TestWatcherRefused: without capabilities, NewWatcher returns the kernel's refusal.
func TestWatcherRefused(t *testing.T) {
	const setting = "/proc/sys/kernel/perf_event_paranoid"
	if level, err := os.ReadFile(setting); err == nil && (strings.HasPrefix(string(level), "-") || strings.HasPrefix(string(level), "0")) {
		t.Skipf("%s lets every user watch processors", setting)
	}
	runtime.LockOSThread() // for good: the thread ends with the test, as it has lost its capabilities
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		t.Fatal(err)
	}
	if w, err := NewWatcher(); err == nil || w != nil {
		t.Errorf("%v, %v", w, err)
	}
}

// TestMapped: of a process that maps many files, one mapping that matters is enough.
func TestMapped(t *testing.T) {
	w, err := NewWatcher()
	testenv.Needs(t, "CAP_PERFMON", err)
	defer w.Close()
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for range 100 {
		mapExecutable(t, file)()
	}
	asked := 0
	pids, _ := w.Mapped(func(pid int, _ *Mapping) bool {
		if pid == os.Getpid() {
			asked++
		}
		return false
	})
	if asked != 1 || !slices.Contains(pids, os.Getpid()) || !slices.IsSorted(pids) {
		t.Error(asked, pids)
	}
}
