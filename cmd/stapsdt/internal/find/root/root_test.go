//go:build linux

package root

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/fusetest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRootStays: links of a hostile container lead nowhere else, with openat2 and without.
func TestRootStays(t *testing.T) {
	outside, dir := filepath.Join(t.TempDir(), "outside"), t.TempDir()
	require.NoError(t, os.WriteFile(outside, []byte("outside"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "rec"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rec/web.rec"), []byte("inside"), 0o600))
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	defer f.Close()
	root := Root{f}
	for name, target := range map[string]string{
		"absolute": filepath.Dir(outside), "above": "../../../../../../../../../.." + filepath.Dir(outside), "magic": "/proc/self/root", "inside": "/rec",
		"rec/link": outside, "rec/loop": "loop",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for name, want := range map[string]error{
		"/absolute/outside": unix.ENOENT, "/above/outside": unix.ENOENT, "/rec/link": unix.ENOENT, "/rec/loop": unix.ELOOP, "/magic/rec/web.rec": unix.ENOENT,
		"/../../rec/web.rec": nil, "/inside/web.rec": nil, "/rec": unix.EISDIR, "/pipe": errIrregular, "/none": unix.ENOENT,
	} {
		f, err := root.Open(name)
		if err == nil {
			f.Close()
		}
		assert.ErrorIs(t, err, want, name)
		fd, err := root.walk(name, unix.O_PATH)
		if err == nil {
			var st unix.Stat_t
			assert.NoError(t, unix.Fstat(fd, &st))
			unix.Close(fd)
			if name == "/rec/link" || name == "/rec/loop" {
				assert.EqualValues(t, unix.S_IFLNK, st.Mode&unix.S_IFMT, "the link itself, which is not opened")
				continue
			}
		}
		if want == nil && name != "/inside/web.rec" {
			assert.NoError(t, err, name)
		} else if want == unix.ENOENT || name == "/inside/web.rec" {
			assert.Error(t, err, name)
		}
	}
}

// TestPoll: no file system is asked whether it is possible to wait for a file, which could stop the command.
func TestPoll(t *testing.T) {
	fs := fusetest.Mount(t)
	fs.Serve([]byte("inside"))
	name := filepath.Join(fs.Dir, "file")
	all, err := Of(0)
	require.NoError(t, err)
	defer all.Close()
	for _, open := range []func(name string) (*os.File, error){Open, all.Open} {
		f, err := open(name)
		require.NoError(t, err)
		defer f.Close()
		b := make([]byte, 6)
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
		require.Equal(t, "inside", string(b))
	}
	require.False(t, fs.Polled())
}
