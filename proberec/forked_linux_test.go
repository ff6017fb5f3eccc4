package proberec

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/recorder"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fork records a few events, and forks a child in the middle that fires more, and has no part in the recording.
func fork(path string) {
	debug.SetGCPercent(-1) // the child has no thread for it
	runtime.LockOSThread()
	p := stapsdt.NewProvider("child")
	probe := stapsdt.NewProbe2[int, string](p, "event", "n", "text")
	r, err := Create(path, 0, p)
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
	pid, err := testenv.Fork()
	if err == nil && pid == 0 {
		fire(1000, 10_000) // more than a chunk holds
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 7, 0, 0)
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
		for n := range uint64(20) {
			e, err := r.Next()
			require.NoError(t, err)
			require.Equal(t, n, e.Word(0))
		}
		_, err = r.Next()
		require.ErrorIs(t, err, io.EOF)
		require.Zero(t, r.Lost())
	}
}
