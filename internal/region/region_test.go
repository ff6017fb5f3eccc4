//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x)

package region

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/tracetest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain fails when a test leaves a descriptor or a mapping of an image.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, what := range []string{"/proc/self/fd", "/proc/self/maps"} {
		for _, line := range open_(what) {
			if strings.Contains(line, "regiontest") && code == 0 {
				fmt.Println("left in", what+":", line)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// open_ lists what a process has open or mapped.
func open_(what string) (lines []string) {
	if what == "/proc/self/maps" {
		maps, _ := os.ReadFile(what)
		return strings.Split(string(maps), "\n")
	}
	entries, _ := os.ReadDir(what)
	for _, e := range entries {
		link, _ := os.Readlink(filepath.Join(what, e.Name()))
		lines = append(lines, link)
	}
	return lines
}

// testImage builds an image with n probes.
func testImage(t testing.TB, n int) *Image {
	t.Helper()
	probes := make([]image.Probe, n)
	for i := range probes {
		probes[i] = image.Probe{Name: fmt.Sprint("probe", i), Args: []int8{8}}
	}
	host := image.Host()
	im, err := image.Build(host, host.SiteByName(site.Chosen()), "regiontest", probes)
	require.NoError(t, err)
	return &Image{Bytes: im.Bytes, ID: im.BuildID(), Provider: "regiontest", Site: site.Chosen(), Text: im.Text, TextSize: uint64(n) * image.SlotSize}
}

// only makes the folder the only one that images can be kept in.
func only(t testing.TB, dir string) Options {
	t.Helper()
	t.Setenv("STAPSDT_DIR", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", "/nonexistent")
	return Options{Dir: dir}
}

// load loads an image and gives it back when the test ends.
func load(t testing.TB, im *Image, opts Options) *Home {
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
	require.Equal(t, filepath.Join(dir, fmt.Sprintf("regiontest-%x.so", im.ID)), home.Path)
	got, err := os.ReadFile(home.Path)
	require.NoError(t, err)
	require.Equal(t, im.Bytes, got)
	info, err := os.Stat(home.Path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSticky|0o400, info.Mode(), "what cleans /tmp by age passes over the sticky bit")
	info, err = os.Stat(dir)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm())

	// What is there already is used as it is, and stays.
	again := load(t, im, Options{Dir: dir})
	require.Equal(t, home.Path, again.Path)
	after, err := os.Stat(home.Path)
	require.NoError(t, err)
	before, err := os.Stat(again.Path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	requireMapped(t, home.Path)
	requireOnlyFile(t, home.Path)
}

// requireMapped finds the path in this process's mappings, where tracers look.
func requireMapped(t testing.TB, path string) {
	t.Helper()
	for _, line := range open_("/proc/self/maps") {
		if strings.HasSuffix(line, " "+path) && strings.Contains(line, " r-xp ") {
			return
		}
	}
	t.Fatalf("%s is not mapped", path)
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
	require.True(t, strings.HasPrefix(home.Path, fmt.Sprintf("/proc/%d/fd/", os.Getpid())))
	got, err := os.ReadFile(home.Path)
	require.NoError(t, err)
	require.Equal(t, im.Bytes, got)
	requireMapped(t, "/memfd:regiontest (deleted)")
	seals, err := unix.FcntlInt(uintptr(home.fd), unix.F_GET_SEALS, 0)
	require.NoError(t, err)
	require.Equal(t, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL, seals&0x0f)
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
			path := filepath.Join(dir, fileName(im.Provider, im.ID))
			plant(t, path)
			home := load(t, im, only(t, dir))
			require.Equal(t, path, home.Path)
			info, err := os.Lstat(path)
			require.NoError(t, err)
			require.True(t, info.Mode().IsRegular())
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, im.Bytes, got)
			requireMapped(t, path)
			requireOnlyFile(t, path)
		})
	}
}

// TestFoldersThatAreNotOurs are passed over, and nothing is put into them.
func TestFoldersThatAreNotOurs(t *testing.T) {
	folders := map[string]func(t *testing.T, dir string){
		"others can write": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chmod(dir, 0o777))
		},
		"the group can write": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chmod(dir, 0o770))
		},
		"a link to a good folder": func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink(t.TempDir(), dir))
		},
		"a file":  func(t *testing.T, dir string) { require.NoError(t, os.WriteFile(dir, nil, 0o600)) },
		"a FIFO":  func(t *testing.T, dir string) { require.NoError(t, unix.Mkfifo(dir, 0o600)) },
		"no room": func(t *testing.T, dir string) { require.NoError(t, os.Symlink(dir, dir)) },
	}
	if os.Geteuid() == 0 {
		folders["somebody else's"] = func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chown(dir, 65534, 65534))
		}
	}
	im := testImage(t, 1)
	for name, plant := range folders {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "images")
			plant(t, dir)
			second := filepath.Join(t.TempDir(), "images")
			opts := only(t, dir)
			t.Setenv("STAPSDT_DIR", second)
			home := load(t, im, opts)
			require.Equal(t, second, filepath.Dir(home.Path))
			entries, _ := os.ReadDir(dir)
			require.Empty(t, entries)
		})
	}
}

// TestChain takes away one place after the other.
func TestChain(t *testing.T) {
	base := t.TempDir()
	im := testImage(t, 1)
	opts := Options{Dir: base + "/dir"}
	t.Setenv("STAPSDT_DIR", base+"/env")
	t.Setenv("XDG_RUNTIME_DIR", base)
	t.Setenv("TMPDIR", base)
	user := fmt.Sprintf("stapsdt-%d", os.Geteuid())
	for _, want := range []string{"dir", "env", "stapsdt", user} {
		home := load(t, im, opts)
		require.Equal(t, filepath.Join(base, want), filepath.Dir(home.Path))
		require.NoError(t, os.RemoveAll(filepath.Join(base, want)))
		require.NoError(t, os.WriteFile(filepath.Join(base, want), nil, 0o600))
	}
	home := load(t, im, opts)
	require.True(t, strings.HasPrefix(home.Path, "/proc/"), home.Path)
}

// TestAnotherUsersRuntimeFolder: root's programs leave no folder in it.
func TestAnotherUsersRuntimeFolder(t *testing.T) {
	tracetest.NeedRoot(t) // to give a folder away
	theirs := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", theirs)
	require.Contains(t, folders(""), filepath.Join(theirs, "stapsdt"))
	require.NoError(t, os.Chown(theirs, 12345, 12345))
	require.NotContains(t, folders(""), filepath.Join(theirs, "stapsdt"))
}

func TestRelativeFolderBecomesAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	home := load(t, testImage(t, 1), only(t, "images"))
	require.True(t, filepath.IsAbs(home.Path))
	require.FileExists(t, home.Path)
}

// TestNamedTemporaryFile: where a file cannot be made without a name.
func TestNamedTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	folder, err := openFolder(dir)
	require.NoError(t, err)
	defer unix.Close(folder)
	content := []byte("content")
	require.NoError(t, writeNamed(folder, "name.so", content))
	require.Equal(t, unix.EEXIST, writeNamed(folder, "name.so", content))
	got, err := os.ReadFile(dir + "/name.so")
	require.NoError(t, err)
	require.Equal(t, content, got)
	requireOnlyFile(t, dir+"/name.so")
}

// TestHeldLock: somebody who holds the folder's lock cannot hold a load up for
// longer than its patience.
func TestHeldLock(t *testing.T) {
	dir := t.TempDir()
	im := testImage(t, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, fileName(im.Provider, im.ID)), []byte("bad"), 0o400))
	other, err := os.Open(dir)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, unix.Flock(int(other.Fd()), unix.LOCK_EX))
	home := load(t, im, only(t, dir))
	require.True(t, strings.HasPrefix(home.Path, "/proc/"), home.Path)
}

func TestNowhere(t *testing.T) {
	im := testImage(t, 1)
	opts := only(t, "/proc/self")
	var none unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &none))
	all := none
	none.Cur = 0
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	var space Space
	_, _, err := Load(&space, im, opts)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &all))
	require.ErrorIs(t, err, ErrPlace)
	require.ErrorIs(t, err, unix.EMFILE)
	require.NotContains(t, err.Error(), "\n")
	require.Empty(t, space.ranges)
	load(t, im, opts)
}

// TestParkAndReuse: the same image finds its range again, another one takes a
// new range, and all of them can be called at any time.
func TestParkAndReuse(t *testing.T) {
	defer func(park func(*span) error) { parkShared = park }(parkShared)
	for name, fail := range map[string]bool{"shared": false, "anonymous": true} {
		t.Run(name, func(t *testing.T) {
			parkShared = realParkShared
			if fail {
				parkShared = func(*span) error { return errors.New("no memfd") }
			}
			var space Space
			defer space.Free()
			opts := only(t, t.TempDir())
			small, large := testImage(t, 3), testImage(t, 5000)
			home, sites, err := Load(&space, small, opts)
			require.NoError(t, err)
			home.Close()
			first := sites.At(0)
			for range 3 {
				require.NoError(t, space.Park())
				require.NoError(t, space.Park(), "again does nothing")
				for i := range 3 {
					requireParked(t, sites.At(i))
				}
				home, sites, err = Load(&space, small, opts)
				require.NoError(t, err)
				home.Close()
				require.Equal(t, unsafe.Pointer(first), unsafe.Pointer(sites.At(0)), "the range is used again")
				require.Equal(t, small.Bytes[small.Text], *sites.At(0))
				require.Len(t, space.ranges, 1)
			}
			require.NoError(t, space.Park())
			home, sites, err = Load(&space, large, opts)
			require.NoError(t, err)
			home.Close()
			require.NotEqual(t, unsafe.Pointer(first), unsafe.Pointer(sites.At(0)))
			require.Equal(t, large.Bytes[large.Text], *sites.At(4999))
			requireParked(t, first)
			require.NoError(t, space.Park())
			requireParked(t, sites.At(4999))
		})
	}
}

// TestStolenDescriptors: a program that closes what is not its own, and opens files
// under the numbers, has none of those mapped or closed.
func TestStolenDescriptors(t *testing.T) {
	name := t.TempDir() + "/theirs"
	require.NoError(t, os.WriteFile(name, make([]byte, 1<<16), 0o600))
	im := testImage(t, 1)
	var space Space
	defer space.Free()
	home, _, err := Load(&space, im, Options{Memfd: true})
	require.NoError(t, err)
	require.NoError(t, space.Park()) // which makes the parked slots

	stolen := []int{home.fd, parked.memory.fd}
	for _, number := range stolen {
		fd, err := unix.Open(name, unix.O_RDONLY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Dup3(fd, number, 0))
		unix.Close(fd)
		defer unix.Close(number)
	}
	home.Close()
	home, sites, err := Load(&space, im, Options{Memfd: true})
	require.NoError(t, err)
	require.NoError(t, space.Park())
	requireParked(t, sites.At(0))
	home.Close()
	for _, number := range stolen {
		_, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0)
		require.NoError(t, err, "it is not ours to close")
	}
}

// TestGrowingImage: a provider that is loaded again with one probe more, and again,
// comes back to its ranges, of which it has few; and what was a site stays parked.
func TestGrowingImage(t *testing.T) {
	var space Space
	defer space.Free()
	opts := Options{Memfd: true}
	published := make(map[*byte]bool)
	for n := 1; n <= 1500; n++ {
		home, sites, err := Load(&space, testImage(t, n), opts)
		require.NoError(t, err)
		published[sites.At(0)], published[sites.At(n-1)] = true, true
		require.NoError(t, space.Park())
		home.Close()
	}
	// Sites start at each 256th byte of a page, and ranges are of 1, 2, 4 and 8 pages.
	require.LessOrEqual(t, len(space.ranges), os.Getpagesize()/256*4)
	for at := range published {
		requireParked(t, at)
	}
}

func requireParked(t testing.TB, at *byte) {
	t.Helper()
	require.NotEqual(t, byte(call.Bits), *at&call.Mask, "a parked slot reads as idle")
	slot := parkedSlot(site.Chosen())
	require.Equal(t, slot[:], unsafe.Slice(at, image.SlotSize))
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
	require.ErrorIs(t, err, ErrPlace)
}
