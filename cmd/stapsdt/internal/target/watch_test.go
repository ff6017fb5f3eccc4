//go:build linux

package target

import (
	"os"
	"runtime"
	"strings"
	"testing"

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
