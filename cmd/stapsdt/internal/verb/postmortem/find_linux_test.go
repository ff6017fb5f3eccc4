package postmortem

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// recorded is a recording that began at a time and has an event, and that was closed or not.
func recorded(began time.Duration, closed bool) []byte {
	r := &eventtest.Recording{Realtime: began}
	r.Head.Ended = closed
	r.Chunk(0, 0, eventtest.Fired{Probe: r.Probe("p", "tick"), At: time.Second})
	return r.Bytes()
}

// TestFind: the newest recording that was not closed is found by a directory and by a path with earlier recordings, and only regular
// files are opened.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"old.rec": recorded(10e9, false), "app.rec-20261126T051447.736571318Z": recorded(20e9, false),
		"closed.rec": recorded(30e9, true), "other": []byte("other"), "7.log": recorded(15e9, false),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	other := filepath.Join(t.TempDir(), "newest.rec")
	require.NoError(t, os.WriteFile(other, recorded(90e9, false), 0o600))
	require.NoError(t, os.Symlink(other, filepath.Join(dir, "link.rec")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe.rec"), 0o600))
	name := func(of string) string {
		s, err := find(of)
		require.NoError(t, err, of)
		defer func() {
			if s.file != nil {
				s.file.Close()
			}
		}()
		require.Equal(t, dir, filepath.Dir(s.path))
		return filepath.Base(s.path)
	}
	require.Equal(t, "app.rec-20261126T051447.736571318Z", name(dir+"/"))
	require.Equal(t, "app.rec-20261126T051447.736571318Z", name(dir+"/app.rec"), "the next start has renamed it")
	require.Equal(t, "7.log", name(dir+"/%p.log"))
	require.Equal(t, "old.rec", name(dir+"/old.rec"))
	require.Equal(t, "closed.rec", name(dir+"/closed.rec"))
	t.Setenv("STAPSDT_RECORD", dir+"/old.rec,1M")
	require.Equal(t, "old.rec", name(""), "as in an ExecStopPost")
	t.Chdir(dir)
	_, err := find("4194305") // no process has this PID
	require.ErrorIs(t, err, fs.ErrNotExist)
	found, err := find("./")
	require.NoError(t, err)
	require.Equal(t, "app.rec-20261126T051447.736571318Z", found.path)
	require.NoError(t, found.file.Close())
	require.NoError(t, os.WriteFile("no-such-program", []byte("a program"), 0o700))
	_, err = find("no-such-program")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "start the program with STAPSDT_RECORD=/dev/shm/no-such-program.rec, or give FILE")
	_, err = find(dir + "/none.rec")
	require.ErrorIs(t, err, fs.ErrNotExist)
	late := &search{of: "x", end: time.Now()}
	late.directory(dir)
	require.True(t, late.late && late.all == nil, "others cannot let it look for ever")
}

// TestOwner: the screen of a recording of another user names the user.
func TestOwner(t *testing.T) {
	testenv.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "app.rec")
	require.NoError(t, os.WriteFile(path, recorded(10e9, false), 0o600))
	shown := func() string {
		var out bytes.Buffer
		err := Run(t.Context(), &console.Console{Out: &out, Err: &out}, Options{Of: path})
		require.NoError(t, err)
		return out.String()
	}
	require.Contains(t, shown(), path+": process 7, /bin/app\n")
	require.NoError(t, os.Chown(path, 65533, 65533))
	require.Contains(t, shown(), path+": process 7, /bin/app, of user 65533\n")
}
