//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && !stapsdt_noload

package region

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain fails when a test leaves a descriptor or a mapping of an image.
func TestMain(m *testing.M) {
	if run := children[os.Getenv(childVariable)]; run != nil {
		run(os.Args[1:])
		os.Exit(0)
	}
	code := m.Run()
	for _, what := range []string{"/proc/self/fd", "/proc/self/maps"} {
		for _, line := range entries(what) {
			if strings.Contains(line, "regiontest") && code == 0 {
				fmt.Println("left in", what+":", line)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// entries returns the links of open descriptors, or the lines of the memory map.
func entries(what string) (lines []string) {
	if what == "/proc/self/maps" {
		maps, _ := os.ReadFile(what)
		return strings.Split(string(maps), "\n")
	}
	descriptors, _ := os.ReadDir(what)
	for _, e := range descriptors {
		link, _ := os.Readlink(filepath.Join(what, e.Name()))
		lines = append(lines, link)
	}
	return lines
}

// testImage builds an image with n probes.
func testImage(t testing.TB, n int) *image.Image {
	t.Helper()
	im, err := buildTest(n)
	require.NoError(t, err)
	return im
}

func buildTest(n int) (*image.Image, error) {
	probes := make([]image.Probe, n)
	for i := range probes {
		probes[i] = image.Probe{Name: fmt.Sprint("probe", i), Args: []int8{8}}
	}
	return image.Build(image.Host(), site.Chosen(), image.Spec{Provider: "regiontest", Probes: probes}, nil)
}

// requireWritten requires the error of a Load that has written the image somewhere, or nowhere.
func requireWritten(t testing.TB, err error, written bool) {
	t.Helper()
	var failure *Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, written, failure.Written, "%v", err)
}

// only demands the directory, and lets no other be used.
func only(t testing.TB, dir string) Options {
	t.Helper()
	nowhere(t)
	return Options{Dir: dir}
}

// nowhere leaves the environment without a directory that can be used.
func nowhere(t testing.TB) {
	t.Helper()
	t.Setenv("STAPSDT_DIR", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", "/nonexistent")
}

// requireMemory finds that an image is in memory.
func requireMemory(t testing.TB, home *Home) {
	t.Helper()
	require.Equal(t, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), home.fd), home.Path())
}

// load loads an image and gives it back when the test ends.
func load(t testing.TB, im *image.Image, opts Options) *Home {
	t.Helper()
	var space Space
	home, sites, err := Load(&space, im, opts)
	require.NoError(t, err)
	t.Cleanup(func() { space.Free(); home.Close() })
	require.Equal(t, im.Bytes[im.Text], *sites.At(0))
	return home
}

func TestFile(t *testing.T) {
	im := testImage(t, 3)
	dir := filepath.Join(t.TempDir(), "new")
	home := load(t, im, only(t, dir))
	require.Equal(t, filepath.Join(dir, fmt.Sprintf("regiontest-%x.so", im.BuildID())), home.Path())
	got, err := os.ReadFile(home.Path())
	require.NoError(t, err)
	require.Equal(t, im.Bytes, got)
	info, err := os.Stat(home.Path())
	require.NoError(t, err)
	require.Equal(t, os.ModeSticky|0o400, info.Mode(), "what cleans /tmp by age passes over the sticky bit")
	info, err = os.Stat(dir)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm())

	// What is there already is used as it is, and stays.
	again := load(t, im, Options{Dir: dir})
	require.Equal(t, home.Path(), again.Path())
	after, err := os.Stat(home.Path())
	require.NoError(t, err)
	before, err := os.Stat(again.Path())
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	requireMapped(t, home.Path())
	requireOnlyFile(t, home.Path())
}

// requireMapped finds the path in this process's mappings, where tracers look.
func requireMapped(t testing.TB, path string) {
	t.Helper()
	for _, line := range entries("/proc/self/maps") {
		if strings.HasSuffix(line, " "+path) && strings.Contains(line, " r-xp ") {
			return
		}
	}
	require.Fail(t, "it is not mapped", path)
}

// requireOnlyFile finds nothing beside the file.
func requireOnlyFile(t testing.TB, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "%v", entries)
}

func TestMemfd(t *testing.T) {
	im := testImage(t, 3)
	home := load(t, im, Options{Memfd: true})
	requireMemory(t, home)
	got, err := os.ReadFile(home.Path())
	require.NoError(t, err)
	require.Equal(t, im.Bytes, got)
	requireMapped(t, "/memfd:regiontest (deleted)")
	seals, err := unix.FcntlInt(uintptr(home.fd), unix.F_GET_SEALS, 0)
	require.NoError(t, err)
	require.Equal(t, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL, seals&0x0f)
}

// TestPathOfLostMemory: when a daemon has put another file under the memory's number, the
// path leads to the mapping, not to that file.
func TestPathOfLostMemory(t *testing.T) {
	testenv.NotEmulated(t, "an emulator may shift the addresses of what is mapped")
	im := testImage(t, 3)
	home := load(t, im, Options{Memfd: true})
	null, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	require.NoError(t, err)
	defer unix.Close(null)
	kept, err := unix.FcntlInt(uintptr(home.fd), unix.F_DUPFD_CLOEXEC, 3)
	require.NoError(t, err)
	defer unix.Close(kept)
	number := home.fd
	requireMapping := func() {
		path := home.Path()
		require.True(t, strings.HasPrefix(path, fmt.Sprintf("/proc/%d/map_files/", os.Getpid())), path)
		_, err := os.Lstat(path)
		require.NoError(t, err)
		if os.Geteuid() == 0 {
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, im.Bytes, got)
		}
	}
	require.NoError(t, unix.Dup3(null, number, unix.O_CLOEXEC))
	requireMapping()
	unix.Close(number)
	requireMapping()
	require.NoError(t, unix.Dup3(kept, number, unix.O_CLOEXEC))
	requireMemory(t, home)
	home.process = ""
	require.Empty(t, home.Path())
	home.process = process()
}

func TestFileNames(t *testing.T) {
	id := [16]byte{0xab, 15: 0xcd}
	require.Equal(t, "p-ab0000000000000000000000000000cd.so", fileName("p", id))
	for _, name := range []string{strings.Repeat("x", 255), strings.Repeat("ü", 127), strings.Repeat("世", 85), "..", "%s%n"} {
		file := fileName(name, id)
		require.LessOrEqual(t, len(file), 255)
		require.NotContains(t, file, "/")
		require.NotContains(t, file, "\ufffd")
		require.True(t, strings.HasSuffix(file, "-ab0000000000000000000000000000cd.so"))
	}
}

// TestTrim cuts a name between characters, and no shorter than it must be.
func TestTrim(t *testing.T) {
	for _, c := range []struct {
		name string
		max  int
		want string
	}{
		{"name", 5, "name"}, {"name", 4, "name"}, {"name", 3, "nam"}, {"name", 0, ""}, {"aü", 3, "aü"}, {"aü", 2, "a"}, {"ü", 1, ""},
		{"世界", 5, "世"}, {"世界", 4, "世"}, {"世界", 3, "世"}, {"世界", 2, ""}, {"\x80\x80", 1, ""},
	} {
		require.Equal(t, c.want, trim(c.name, c.max), "%q, %d", c.name, c.max)
	}
}

// TestBadFilesAreReplaced: what has the image's name and is not it.
func TestBadFilesAreReplaced(t *testing.T) {
	im := testImage(t, 2)
	changed := bytes.Clone(im.Bytes)
	changed[im.Text] ^= 0xff
	plant := map[string]func(t *testing.T, path string){
		"other bytes": func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, changed, 0o400)) },
		"half a file": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, im.Bytes[:len(im.Bytes)/2], 0o400))
		},
		"more than the file": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, append(bytes.Clone(im.Bytes), 0), 0o400))
		},
		"empty": func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o400)) },
		"others can write": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, im.Bytes, 0o600))
			require.NoError(t, os.Chmod(path, 0o622))
		},
		"link to a good file": func(t *testing.T, path string) {
			good := filepath.Join(t.TempDir(), "good")
			require.NoError(t, os.WriteFile(good, im.Bytes, 0o400))
			require.NoError(t, os.Symlink(good, path))
		},
		"link to nothing": func(t *testing.T, path string) { require.NoError(t, os.Symlink("/nonexistent", path)) },
		"fifo":            func(t *testing.T, path string) { require.NoError(t, unix.Mkfifo(path, 0o600)) },
		"socket":          func(t *testing.T, path string) { require.NoError(t, unix.Mknod(path, unix.S_IFSOCK|0o600, 0)) },
	}
	if os.Geteuid() == 0 {
		plant["somebody else's"] = func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, im.Bytes, 0o444))
			require.NoError(t, os.Chown(path, 65534, 65534))
		}
		plant["device"] = func(t *testing.T, path string) {
			require.NoError(t, unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))))
		}
	}
	for name, plant := range plant {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName(im.Provider, im.BuildID()))
			plant(t, path)
			home := load(t, im, only(t, dir))
			require.Equal(t, path, home.Path())
			info, err := os.Lstat(path)
			require.NoError(t, err)
			require.Equal(t, os.ModeSticky|0o400, info.Mode(), "it is a new file")
			require.EqualValues(t, os.Geteuid(), info.Sys().(*syscall.Stat_t).Uid)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, im.Bytes, got)
			requireMapped(t, path)
			requireOnlyFile(t, path)
		})
	}
}

// TestNamedTemporaryFile: where a file cannot be made without a name.
func TestNamedTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	dirfd, err := openDirectory(dir, checkFileSystem)
	require.NoError(t, err)
	defer unix.Close(dirfd)
	content := []byte("content")
	require.NoError(t, writeNamed(dirfd, "name.so", content))
	require.Equal(t, unix.EEXIST, writeNamed(dirfd, "name.so", content))
	got, err := os.ReadFile(dir + "/name.so")
	require.NoError(t, err)
	require.Equal(t, content, got)
	requireOnlyFile(t, dir+"/name.so")
}

// TestFileThatCannotBeMapped stays: another process may have mapped it in the meantime,
// and tracers find that one by the file.
func TestFileThatCannotBeMapped(t *testing.T) {
	dir := t.TempDir()
	good := testImage(t, 1)
	bad := *good
	if strconv.IntSize == 32 {
		t.Skip("a size that no address space has is no int here")
	}
	bits := 56
	bad.Sites = 1 << bits // no address space is so large
	var space Space
	_, _, err := Load(&space, &bad, only(t, dir))
	requireWritten(t, err, true)
	require.Empty(t, space.ranges)
	path := filepath.Join(dir, fileName(good.Provider, good.BuildID()))
	require.FileExists(t, path)
	require.Equal(t, path, load(t, good, only(t, dir)).Path())
}

// TestHeldLock: a process that holds the directory's lock cannot hold up a load forever.
func TestHeldLock(t *testing.T) {
	dir := t.TempDir()
	im := testImage(t, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, fileName(im.Provider, im.BuildID())), []byte("bad"), 0o400))
	other, err := os.Open(dir)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, unix.Flock(int(other.Fd()), unix.LOCK_EX))
	var space Space
	_, _, err = Load(&space, im, only(t, dir))
	require.ErrorIs(t, err, unix.EWOULDBLOCK)
}

// TestFailedMapLeavesNoRange: the address space that was reserved is released.
func TestFailedMapLeavesNoRange(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("a range that can be distinguished from the heap does not fit into 32 bits")
	}
	pages := func() (n int) {
		statm, err := os.ReadFile("/proc/self/statm")
		require.NoError(t, err)
		_, err = fmt.Sscan(string(statm), &n)
		require.NoError(t, err)
		return n
	}
	size := int64(3 << 30) // of which a power of two is reserved
	im := *testImage(t, 1)
	im.Sites = int(size / image.SlotSize)
	before := pages()
	var space Space
	_, err := space.Map(-1, &im)
	require.ErrorIs(t, err, unix.EBADF)
	require.Empty(t, space.ranges)
	require.Less(t, pages()-before, int(size)/os.Getpagesize())
}

// TestKeptMapping: where nothing can replace it, the image stays.
func TestKeptMapping(t *testing.T) {
	defer func(a, b func(*span) error) { parkShared, parkAnonymous = a, b }(parkShared, parkAnonymous)
	fails := func(*span) error { return unix.EACCES }
	parkShared, parkAnonymous = fails, fails
	var space Space
	defer space.Free()
	im := testImage(t, 1)
	opts := only(t, t.TempDir())
	home, sites, err := Load(&space, im, opts)
	require.NoError(t, err)
	home.Close()
	require.ErrorIs(t, space.Park(), unix.EACCES)
	require.Equal(t, im.Bytes[im.Text], *sites.At(0))
	_, again, err := Load(&space, im, opts)
	require.NoError(t, err)
	require.Equal(t, sites, again)
}

// TestFileSizeLimit: what does not fit is an error, before it is a signal.
func TestFileSizeLimit(t *testing.T) {
	im := testImage(t, 1)
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	small := unix.Rlimit{Cur: uint64(len(im.Bytes)) - 1, Max: old.Max}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &small))
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &old)
	space := new(Space)
	_, _, err := Load(space, im, only(t, t.TempDir()))
	require.ErrorIs(t, err, unix.EFBIG)
	requireWritten(t, err, false)
}
