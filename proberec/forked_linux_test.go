package proberec

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fork records a few events, and forks a child in the middle that fires more, and has no part in the recording: what it maps where that was
// stays as it is, also when it fires a probe for which the table had no room.
func fork(path string) {
	debug.SetGCPercent(-1) // the child has no thread for it
	runtime.LockOSThread()
	p := stapsdt.NewProvider("child")
	probe := stapsdt.NewProbe2[int, string](p, "event", "n", "text")
	r, err := Create(path, 1, p)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Getenv("PROBEREC_COUNTER") != "" {
		r.writer = newWriter(r.file.Memory, r.file.Chunks, recorder.Options{Counter: true})
	}
	r.Start()
	fire := func(from, n int) {
		for i := range n {
			probe.Fire(from+i, "some text")
		}
	}
	fire(0, 10)
	var unknown *stapsdt.Probe1[int]
	for i := range 700 {
		unknown = stapsdt.NewProbe1[int](p, fmt.Sprint(strings.Repeat("x", 100), i))
		unknown.Fire(i)
	}
	dropped := r.writer.Dropped()
	pid, err := testenv.Fork()
	if err == nil && pid == 0 {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(r.file.Memory)))
		size := uintptr(len(r.file.Memory))
		status := uintptr(7)
		mmap := map[string]uintptr{"amd64": 9, "arm64": 222, "386": 192, "arm": 192}[runtime.GOARCH] // the others are emulated
		mapped, _, _ := unix.RawSyscall6(mmap, at, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
		if mapped != at {
			status = 8
		}
		fire(1000, 10_000) // more than a chunk holds
		unknown.Fire(0)
		for _, b := range r.file.Memory {
			if b != 0 {
				status = 9
			}
		}
		unix.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
	}
	var status unix.WaitStatus
	if err == nil {
		_, err = unix.Wait4(pid, &status, 0, nil)
	}
	if err != nil || status.ExitStatus() != 7 {
		fmt.Println("the child:", err, status)
		os.Exit(1)
	}
	fire(10, 10)
	fmt.Println(dropped)
}

// TestForked: the fires of a child that was forked without exec neither fail nor reach the recording of its parent.
func TestForked(t *testing.T) {
	testenv.NotEmulated(t, "it starts itself as another program")
	testenv.NotRaced(t, "the detector locks in a child")
	for _, counter := range []string{"", "yes"} {
		path := filepath.Join(t.TempDir(), "flight")
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "PROBEREC_FORK="+path, "PROBEREC_COUNTER="+counter)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		r := openRecording(t, path)
		dropped, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 64)
		require.NoError(t, err, "%s", out)
		require.Positive(t, dropped)
		for n := uint64(0); n < 20; {
			e, err := r.Next()
			require.NoError(t, err)
			if e.Probe.Name == "event" {
				require.Equal(t, n, e.Word(0))
				n++
			}
		}
		_, err = r.Next()
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, dropped, r.Lost())
	}
}
