//go:build linux

package proc

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

// TestWatcherRefused: without capabilities, NewWatcher returns the kernel's refusal, unless the kernel lets every user watch processors.
func TestWatcherRefused(t *testing.T) {
	level, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	require.NoError(t, err)
	everyone := strings.HasPrefix(string(level), "-") || strings.HasPrefix(string(level), "0")
	runtime.LockOSThread() // for good: the thread ends with the test, as it has lost its capabilities
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	require.NoError(t, unix.Capset(&header, &none[0]))
	w, err := NewWatcher()
	assert.Equal(t, everyone, err == nil, err)
	if assert.Equal(t, everyone, w != nil) && everyone {
		w.Close()
	}
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
	seen, asked := 0, 0
	pids, all := w.Mapped(func(pid int, _ *Mapping) {
		if pid == os.Getpid() {
			seen++
		}
	}, func(pid int, _ *Mapping) bool {
		if pid == os.Getpid() {
			asked++
		}
		return false
	})
	assert.LessOrEqual(t, asked, 1)
	if !all { // other processes have not filled the ring
		assert.Equal(t, 1, asked)
		assert.Equal(t, 100, seen)
		assert.Contains(t, pids, os.Getpid())
	}
	assert.True(t, slices.IsSorted(pids), pids)
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
	unseen, none := func(int, *Mapping) {}, func(int, *Mapping) bool { return false }
	for i := range 3000 {
		if i == 1000 { // meanwhile, more than a ring has space for
			for range 2000 {
				mapExecutable(t, file)()
			}
			w.Mapped(unseen, none)
			mapExecutable(t, file)() // the kernel says so when there is space again
			_, all := w.Mapped(unseen, none)
			assert.True(t, all, "nothing was lost")
		}
		mapExecutable(t, file)()
		pids, all := w.Mapped(unseen, none)
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
