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
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"

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
