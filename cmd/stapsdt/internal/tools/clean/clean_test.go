//go:build linux

package clean

import (
	"os"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestDirectories: clean looks where a program with this environment keeps its images.
func TestDirectories(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want []string
	}{
		{nil, []string{"/tmp", "/tmp/stapsdt-1000"}},
		{
			map[string]string{"STAPSDT_DIR": "images", "XDG_RUNTIME_DIR": "/run/user/1000", "TMPDIR": "/var/tmp"},
			[]string{"/run/user/1000/stapsdt", "/tmp", "/var/tmp/stapsdt-1000", "images"},
		},
		{map[string]string{"XDG_RUNTIME_DIR": "relative", "TMPDIR": "relative"}, []string{"/tmp", "/tmp/stapsdt-1000"}},
	} {
		environment := func(name string) string { return c.env[name] }
		assert.Equal(t, c.want, Directories(environment, 1000, false), c.env)
		assert.Subset(t, Directories(environment, 1000, true), c.want, c.env)
	}
}

// TestReplacedMeanwhile: a file that has been replaced since it was looked at stays under its name.
func TestReplacedMeanwhile(t *testing.T) {
	directory := t.TempDir()
	dir, err := os.Open(directory)
	require.NoError(t, err)
	defer dir.Close()
	require.NoError(t, os.WriteFile(directory+"/file", nil, 0o600))
	var old unix.Stat_t
	require.NoError(t, unix.Stat(directory+"/file", &old))
	opened, err := os.Open(directory + "/file")
	require.NoError(t, err)
	defer opened.Close()
	require.NoError(t, os.Rename(directory+"/file", directory+"/old"))
	require.NoError(t, os.WriteFile(directory+"/file", nil, 0o600))
	action, why := remove(int(dir.Fd()), "file", int(opened.Fd()), &old)
	assert.Equal(t, []any{Failed, "the file was replaced meanwhile"}, []any{action, why})
	assert.FileExists(t, directory+"/file")
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Len(t, entries, 2)
}

// TestHostileNames: nothing but regular files in the directory itself, of its owner, is removed.
func TestHostileNames(t *testing.T) {
	testenv.NeedsRoot(t) // for chown
	directory, elsewhere := t.TempDir(), t.TempDir()
	const name = "provider-0123456789abcdef0123456789abcdef.so"
	require.NoError(t, os.Symlink(elsewhere, directory+"/link"))
	require.NoError(t, os.Symlink("/etc/passwd", directory+"/x-aaaaaa.so"))
	require.NoError(t, unix.Mkfifo(directory+"/x-bbbbbb.so", 0o600))
	require.NoError(t, os.WriteFile(directory+"/x-cccccc.so", []byte("\x7fELF"), 0o600))
	require.NoError(t, os.WriteFile(directory+"/"+name, nil, 0o600))
	require.NoError(t, os.Chown(directory+"/"+name, 65534, 65534))
	files := Clean(Options{Named: []string{directory, directory + "/link", directory + "/none"}})
	require.Len(t, files, 1)
	assert.Equal(t, Failed, files[0].Action, "a link to a directory")
	assert.Equal(t, directory+"/link", files[0].Path)
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Len(t, entries, 5)
}
