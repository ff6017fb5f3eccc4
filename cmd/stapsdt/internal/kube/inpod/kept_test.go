//go:build linux

package inpod

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func recorded(second int) []byte {
	r := eventtest.Recording{Realtime: time.Duration(second) * time.Second}
	p := r.Probe("p", "tick", "n")
	r.Chunk(0, 0, eventtest.Fired{Probe: p, At: time.Second, Words: []uint64{1}})
	return r.Bytes()
}

// TestRecordedMounts: the recordings in the volumes of a container that does not run are found by the variable, and opened by name, by
// path and by their age, with the path that the container sees.
func TestRecordedMounts(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.rec")
	kept := path + "-20261126T051447.736571318Z"
	require.NoError(t, os.WriteFile(path, recorded(20), 0o600))
	require.NoError(t, os.WriteFile(kept, recorded(10), 0o600))
	for _, test := range []struct {
		r    Recorded
		want string
		err  error
	}{
		{Recorded{Kept: true}, path, nil},
		{Recorded{Newest: true}, path, nil},
		{Recorded{From: kept, Newest: true}, kept, nil},
		{Recorded{From: filepath.Base(kept)}, kept, nil},
		{Recorded{From: kept, Kept: true}, kept, nil},
		{Recorded{From: "other"}, "", fs.ErrNotExist},
		{Recorded{From: dir + "/none"}, "", fs.ErrNotExist},
		{Recorded{From: dir}, "", unix.EISDIR},
	} {
		test.r.Mounted, test.r.Variable = true, path+",1M"
		require.True(t, test.r.Given())
		f, err := test.r.Open(nil)
		require.ErrorIs(t, err, test.err)
		if err == nil {
			assert.Equal(t, test.want, f.Name())
			require.NoError(t, CheckKept(f))
			f.Close()
		}
	}
	r := Recorded{Mounted: true, Variable: path}
	all, err := r.All(nil)
	require.NoError(t, err)
	require.Len(t, all, 2)
	a, err := r.LookAtMounts()
	require.NoError(t, err)
	require.Equal(t, []Process{{UID: a.UID, GID: a.GID, Readable: true}}, a.Processes)

	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	r.From = path
	written, err := r.Open(nil)
	require.NoError(t, err)
	defer written.Close()
	require.ErrorIs(t, CheckKept(written), errWritten)
	r.From, r.Kept = "", true
	latest, err := r.Open(nil)
	require.NoError(t, err)
	defer latest.Close()
	require.Equal(t, kept, latest.Name(), "the other one is written")
	r.Kept, r.Newest = false, true
	newest, err := r.Open(nil)
	require.NoError(t, err)
	defer newest.Close()
	require.Equal(t, kept, newest.Name(), "a crash tells more than a process that is alive")
	require.NoError(t, os.Remove(kept))
	living, err := r.Open(nil)
	require.NoError(t, err)
	defer living.Close()
	require.Equal(t, path, living.Name())
	require.NoError(t, os.Remove(path))
	_, err = r.Open(nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestRecordedByOthers: the recording of another user, to which the path of a recording may lead, is refused.
func TestRecordedByOthers(t *testing.T) {
	testenv.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "web.rec")
	require.NoError(t, os.WriteFile(path, recorded(20), 0o644))
	r := Recorded{From: path}
	for _, mounted := range []bool{false, true} {
		r.Mounted = mounted
		require.NoError(t, os.Chown(path, 20001, 20001))
		_, err := r.Open([]int{os.Getpid()})
		require.EqualError(t, err, fmt.Sprintf("%s: it belongs to user 20001, but process %d does not run as that user: another program has made it", path, os.Getpid()))
		require.NoError(t, os.Chown(path, 0, 0))
		f, err := r.Open([]int{os.Getpid()})
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
}

// TestNothingIsKept: the error that there is no recording says that the process does not record either, if its environment requests it.
func TestNothingIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.rec")
	for variable, reason := range map[string]string{
		"STAPSDT_RECORD=":        "",
		"STAPSDT_RECORD=" + path: "; the environment of process %d has STAPSDT_RECORD, but it does not record: its log has the reason, unless it never calls probeenv.Load",
	} {
		c := exec.Command("/bin/sleep", "60")
		c.Env = []string{variable}
		require.NoError(t, c.Start())
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		pid := c.Process.Pid
		// The kernel closes the pipe by which Start waits for execve before the process has its environment.
		require.Eventually(t, func() bool {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			return string(b) == variable+"\x00"
		}, testenv.Patience, time.Millisecond)
		if reason != "" {
			reason = fmt.Sprintf(reason, pid)
		}
		_, err := (&Recorded{Kept: true}).Open([]int{pid})
		require.EqualError(t, err, "no earlier process has left a recording: file does not exist"+reason)
	}
}

// TestHold: the place that is printed leads to the file even after it was renamed, and has its checksum.
func TestHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.rec")
	b := recorded(1)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Rename(path, path+"-moved"))
	gone, end := context.WithCancel(t.Context())
	end()
	var out bytes.Buffer
	require.NoError(t, Hold(gone, &out, f))
	var r Recording
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Equal(t, Recording{PID: os.Getpid(), FD: int(f.Fd()), Size: int64(len(b)), Path: path, SHA256: fmt.Sprintf("%x", sha256.Sum256(b))}, r)
}
