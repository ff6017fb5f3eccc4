//go:build linux

package target

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	require.NoError(t, unix.Capset(&header, &none[0]))
	w, err := NewWatcher()
	assert.Error(t, err)
	assert.Nil(t, w)
}

// TestMapped: of a process that maps many files, one mapping that matters is enough.
func TestMapped(t *testing.T) {
	w, err := NewWatcher()
	testenv.Needs(t, "CAP_PERFMON", err)
	defer w.Close()
	file, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer file.Close()
	for range 100 {
		mapExecutable(t, file)()
	}
	asked := 0
	pids, all := w.Mapped(func(pid int, _ *Mapping) bool {
		if pid == os.Getpid() {
			asked++
		}
		return false
	})
	assert.LessOrEqual(t, asked, 1)
	if !all { // other processes have not filled the ring
		assert.Equal(t, 1, asked)
		assert.Contains(t, pids, os.Getpid())
	}
	assert.True(t, slices.IsSorted(pids), pids)
}
