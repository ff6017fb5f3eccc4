package recordfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// makeDirectory makes the last directory of the path of a recording, but no recording.
func makeDirectory(path string) error {
	d, err := openDirectory(directoryOf(path), true)
	if err != nil {
		return err
	}
	return d.Close()
}

// TestDirectoryIsReplaced: if the directory of a recording is moved, and a link takes its name, the
// recording stays in the directory that was checked.
func TestDirectoryIsReplaced(t *testing.T) {
	volume, victim := t.TempDir(), t.TempDir()
	rec, moved := filepath.Join(volume, "rec"), filepath.Join(volume, "moved")
	path := filepath.Join(rec, "app.rec")
	require.NoError(t, makeDirectory(path))
	replace := func() {
		t.Helper()
		require.NoError(t, os.Rename(rec, moved))
		require.NoError(t, os.Symlink(victim, rec))
	}
	restore := func() {
		t.Helper()
		require.NoError(t, os.Remove(rec))
		require.NoError(t, os.Rename(moved, rec))
	}
	for range Keep + 3 { // each finds the recording of the last, and the last ones remove some
		f, err := Create(path, 1, false)
		require.NoError(t, err)
		h := recording.Head{PID: uint32(os.Getpid()), Chunks: f.Chunks}
		copy(f.Memory, h.Encode())
		replace()
		require.NoError(t, f.Publish(path, path))
		require.NoError(t, f.Close())
		restore()
	}
	require.Equal(t, Keep+1, testenv.Entries(rec))
	f, err := Create(path, 1, false)
	require.NoError(t, err)
	replace()
	f.Remove()
	restore()
	require.Equal(t, Keep+1, testenv.Entries(rec))
	require.Zero(t, testenv.Entries(victim))
}

// TestNotPublished: a file that cannot have its name is removed.
func TestNotPublished(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.rec")
	f, err := Create(path, 1, false)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("other"), 0o600))
	require.ErrorIs(t, f.Publish(path, path), errOther)
	require.Equal(t, 2, testenv.Entries(dir))
	f.Remove()
	require.Equal(t, 1, testenv.Entries(dir))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "other", string(b))
}

// TestPathOfDirectory: the last element of a path names a file.
func TestPathOfDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, dir + "/", dir + "/.", dir + "/.."} {
		_, err := Create(path, 1, false)
		require.ErrorIs(t, err, errOther, path)
	}
	require.Zero(t, testenv.Entries(dir))
}

// TestParentOfLink: after a link, .. leads to the parent of the directory to which the link leads, as
// for the kernel. The recording is where its path leads.
func TestParentOfLink(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"real/deep", "new"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	require.NoError(t, os.Symlink("real/deep", filepath.Join(dir, "link")))
	t.Chdir(filepath.Join(dir, "new"))
	for i, name := range []string{dir + "/link/../app.rec", dir + "/link/..//new/app.rec", "../link/../app2.rec"} {
		f, err := Create(name, 1, true)
		require.NoError(t, err)
		require.NoError(t, f.Publish(name, name))
		require.FileExists(t, name)
		require.NoError(t, f.Close())
		require.FileExists(t, filepath.Join(dir, []string{"real/app.rec", "real/new/app.rec", "real/app2.rec"}[i]))
	}
	require.Zero(t, testenv.Entries("."))
}

// TestMadeElsewhere: no directory is made where a link leads that another user could replace.
func TestMadeElsewhere(t *testing.T) {
	volume, victim := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chmod(volume, 0o777))
	link := filepath.Join(volume, "link")
	require.NoError(t, os.Symlink(victim, link))
	require.EqualError(t, makeDirectory(link+"/new/app.rec"),
		link+": other users may write to "+volume+", and could replace this link: name the directory to which it leads")
	require.Zero(t, testenv.Entries(victim))
	for _, path := range []string{"/new/app.rec", "/dot/./app.rec"} {
		require.NoError(t, makeDirectory(victim+path))
		require.DirExists(t, filepath.Dir(victim+path))
	}
}
