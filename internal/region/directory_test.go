//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && !stapsdt_noload

package region

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestUsersMapped: the map of a user namespace as the kernel writes it, of one that has all users and of those that have not.
func TestUsersMapped(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true, "0 0 4294967295\n": true,
		"         0       1000          1\n": false, "         0          0      65536\n": false, "": false, "         0          0": false,
		"         0          0 4294967295\n         1 2 3\n": false, "00 4294967295\n": false, "         0          0 42949672950\n": false,
	} {
		require.Equal(t, want, allUsersMapped([]byte(text)), text)
	}
}

// TestDirectoriesThatAreNotOurs are passed over, or an error where they were demanded, and
// nothing is put into them.
func TestDirectoriesThatAreNotOurs(t *testing.T) {
	directories := map[string]func(t *testing.T, dir string){
		"others can write": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chmod(dir, 0o777))
		},
		"the group can write": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chmod(dir, 0o770))
		},
		"a link to a good directory": func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink(t.TempDir(), dir))
		},
		"a file":  func(t *testing.T, dir string) { require.NoError(t, os.WriteFile(dir, nil, 0o600)) },
		"a FIFO":  func(t *testing.T, dir string) { require.NoError(t, unix.Mkfifo(dir, 0o600)) },
		"no room": func(t *testing.T, dir string) { require.NoError(t, os.Symlink(dir, dir)) },
	}
	if os.Geteuid() == 0 {
		directories["somebody else's"] = func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chown(dir, 65534, 65534))
		}
	}
	im := testImage(t, 1)
	for name, plant := range directories {
		t.Run(name, func(t *testing.T) {
			base, second := t.TempDir(), t.TempDir()
			dir := filepath.Join(base, "stapsdt")
			plant(t, dir)
			nowhere(t)
			err := requireRefused(t, im, dir)
			switch {
			case strings.HasPrefix(name, "a link"):
				require.ErrorContains(t, err, "it is a symbolic link")
			case strings.HasSuffix(name, "can write"), name == "somebody else's":
				require.ErrorContains(t, err, "name a directory in it, such as "+dir+"/app, and it is created for this user alone")
			default:
				require.NotContains(t, err.Error(), "/app")
			}
			t.Setenv("XDG_RUNTIME_DIR", base)
			t.Setenv("TMPDIR", second)
			home := load(t, im, Options{})
			require.Equal(t, fmt.Sprintf("%s/stapsdt-%d", second, os.Geteuid()), filepath.Dir(home.Path()))
			entries, _ := os.ReadDir(dir)
			require.Empty(t, entries)
		})
	}
}

// TestDirectoryInVolume: in a volume that belongs to root and to which all may write, as an emptyDir of
// Kubernetes, the directory that the error names is created and used.
func TestDirectoryInVolume(t *testing.T) {
	testenv.NeedsRoot(t)
	volume, err := os.MkdirTemp("", "stapsdt") // t.TempDir is in a directory that others cannot enter
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(volume) })
	require.NoError(t, os.Chmod(volume, 0o777))
	im := testImage(t, 1)
	require.NoError(t, syscall.Setresuid(-1, 65534, -1))
	t.Cleanup(func() { require.NoError(t, syscall.Setresuid(-1, 0, -1)) })
	err = requireRefused(t, im, volume)
	require.ErrorContains(t, err, "it is owned by user 0")
	home := load(t, im, Options{Dir: volume + "/app"})
	require.Equal(t, volume+"/app", filepath.Dir(home.Path()))
}

// requireRefused finds that an image is kept nowhere when it cannot be kept in dir, and
// that the error says who demanded it. It returns the error.
func requireRefused(t testing.TB, im *image.Image, dir string) error {
	t.Helper()
	var space Space
	_, _, err := Load(&space, im, Options{Dir: dir})
	requireWritten(t, err, false)
	require.ErrorContains(t, err, "WithDir: ")
	t.Setenv("STAPSDT_DIR", dir)
	_, _, err = Load(&space, im, Options{})
	requireWritten(t, err, false)
	require.ErrorContains(t, err, "$STAPSDT_DIR: ")
	require.NotContains(t, err.Error(), "\n")
	require.Empty(t, space.ranges)
	t.Setenv("STAPSDT_DIR", "")
	return err
}

// TestChain takes away one place after the other.
func TestChain(t *testing.T) {
	base := t.TempDir()
	im := testImage(t, 1)
	t.Setenv("STAPSDT_DIR", "")
	t.Setenv("XDG_RUNTIME_DIR", base)
	t.Setenv("TMPDIR", base)
	for _, want := range []string{"stapsdt", fmt.Sprintf("stapsdt-%d", os.Geteuid())} {
		home := load(t, im, Options{})
		require.Equal(t, filepath.Join(base, want), filepath.Dir(home.Path()))
		require.NoError(t, os.RemoveAll(filepath.Join(base, want)))
		require.NoError(t, os.WriteFile(filepath.Join(base, want), nil, 0o600))
	}
	requireMemory(t, load(t, im, Options{}))
}

// TestDemands: an option overrides the variable, the variable overrides the rest of the
// environment, and nothing takes the place of what was demanded.
func TestDemands(t *testing.T) {
	base := t.TempDir()
	im := testImage(t, 1)
	t.Setenv("STAPSDT_DIR", base+"/variable")
	t.Setenv("XDG_RUNTIME_DIR", base)
	t.Setenv("TMPDIR", base)
	home := load(t, im, Options{Dir: base + "/option"})
	require.Equal(t, base+"/option", filepath.Dir(home.Path()))
	home = load(t, im, Options{})
	require.Equal(t, base+"/variable", filepath.Dir(home.Path()))
	requireMemory(t, load(t, im, Options{Memfd: true}))
	require.ErrorIs(t, requireRefused(t, im, base+"/no/parent"), unix.ENOENT)
	require.Len(t, places(Options{}), 3, "stapsdt, stapsdt-UID and memory")
	t.Setenv("STAPSDT_DIR", base+"/option")
	require.Len(t, places(Options{}), 1)
	entries, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Len(t, entries, 2, "%v", entries)
}

// TestAnotherUsersRuntimeDirectory: root's programs leave no directory in it.
func TestAnotherUsersRuntimeDirectory(t *testing.T) {
	testenv.NeedsRoot(t) // to give a directory away
	theirs := t.TempDir()
	nowhere(t)
	t.Setenv("XDG_RUNTIME_DIR", theirs)
	im := testImage(t, 1)
	require.Equal(t, filepath.Join(theirs, "stapsdt"), filepath.Dir(load(t, im, Options{}).Path()))
	require.NoError(t, os.RemoveAll(filepath.Join(theirs, "stapsdt")))
	require.NoError(t, os.Chown(theirs, 12345, 12345))
	requireMemory(t, load(t, im, Options{}))
	require.NoDirExists(t, filepath.Join(theirs, "stapsdt"))
}

// TestRelative: a relative directory becomes absolute where it was demanded, and is no place otherwise.
func TestRelative(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(gone, 0o700))
	t.Chdir(gone)
	im := testImage(t, 1)
	nowhere(t)
	t.Setenv("XDG_RUNTIME_DIR", ".")
	t.Setenv("TMPDIR", ".")
	requireMemory(t, load(t, im, Options{}))
	require.NoError(t, os.Remove(gone), "nothing is in it")
	require.ErrorIs(t, requireRefused(t, im, "images"), unix.ENOENT, "a path cannot be made of a directory that is gone")

	t.Chdir(t.TempDir())
	home := load(t, im, only(t, "images"))
	require.True(t, filepath.IsAbs(home.Path()))
	require.FileExists(t, home.Path())
	t.Setenv("STAPSDT_DIR", "variable/../images")
	require.Equal(t, home.Path(), load(t, im, Options{}).Path())
}

// TestPathsThatTracersCannotTake are refused, and passed over.
func TestPathsThatTracersCannotTake(t *testing.T) {
	im := testImage(t, 1)
	for _, name := range []string{"a:b", "a\nb", "a\tb", "\x1b[2J", "a\x7f"} {
		base := t.TempDir()
		nowhere(t)
		dir := base + "/" + name
		require.ErrorContains(t, requireRefused(t, im, dir), "tracers cannot find probes in a path that contains ")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.Error(t, requireRefused(t, im, dir+"/images"))
		t.Setenv("XDG_RUNTIME_DIR", dir)
		t.Setenv("TMPDIR", dir)
		requireMemory(t, load(t, im, Options{}))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	for _, name := range []string{"a b", "ä", "世", "a,b", "a=b", strings.Repeat("x", 200)} {
		load(t, im, only(t, t.TempDir()+"/"+name))
	}
}

func TestNowhere(t *testing.T) {
	im := testImage(t, 1)
	nowhere(t)
	opts := Options{}
	var none unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &none))
	all := none
	none.Cur = 0
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	var space Space
	_, _, err := Load(&space, im, opts)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &all))
	requireWritten(t, err, false)
	require.ErrorIs(t, err, unix.EMFILE)
	require.NotContains(t, err.Error(), "\n")
	require.Empty(t, space.ranges)
	load(t, im, opts)
}
