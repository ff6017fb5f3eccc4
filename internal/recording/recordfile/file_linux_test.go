package recordfile

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRoom: the contents of files count as room, and the group that allows the least counts.
func TestRoom(t *testing.T) {
	mount := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(mount, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(mount, name), []byte(text), 0o644))
	}
	room := func() int64 {
		n, _ := least(math.MaxInt64, "", mount, "/pod/container", v2)
		return n
	}
	require.EqualValues(t, int64(math.MaxInt64), room())
	write("pod/memory.max", "max\n")
	write("pod/memory.current", "1000\n")
	write("pod/container/memory.max", "1000\n")
	write("pod/container/memory.current", "990\n")
	require.EqualValues(t, 10, room())
	write("pod/container/memory.stat", "anon 10\ninactive_file 900\nactive_file 80\n")
	require.EqualValues(t, 910, room())
	write("pod/memory.max", "1100\n")
	require.EqualValues(t, 100, room())
}

// TestRoot: the root of all control groups is told from the group that a container sees in its place.
func TestRoot(t *testing.T) {
	for name, test := range map[string]struct {
		version files
		there   []string
		want    bool
	}{
		"version 1":              {v1, []string{"cgroup.sane_behavior", "memory.limit_in_bytes"}, true},
		"version 1, a container": {v1, []string{"memory.limit_in_bytes"}, false},
		"version 2":              {v2, []string{"cgroup.controllers"}, true},
		"version 2, a container": {v2, []string{"cgroup.controllers", "cgroup.type", "memory.max"}, false},
		"nothing":                {v2, nil, false},
	} {
		mount := t.TempDir()
		for _, file := range test.there {
			require.NoError(t, os.WriteFile(mount+"/"+file, []byte("0\n"), 0o600))
		}
		require.Equal(t, test.want, test.version.isRoot(mount), name)
	}
}

// TestAvailable: without a control group, the machine's memory is the room.
func TestAvailable(t *testing.T) {
	require.EqualValues(t, 15<<20, available("MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:   15360 kB\nBuffers: 0 kB\n"))
	for _, text := range []string{"", "MemTotal: 1 kB\n", "MemAvailable: many kB\n", "MemAvailable:\n"} {
		require.EqualValues(t, -1, available(text))
	}
	var machine unix.Sysinfo_t
	require.NoError(t, unix.Sysinfo(&machine))
	room := MemoryRoom()
	require.LessOrEqual(t, uint64(room.Bytes), uint64(machine.Totalram)*uint64(machine.Unit))
	require.NotEmpty(t, room.Group)
	shared, err := os.Open("/dev/shm")
	require.NoError(t, err)
	defer shared.Close()
	require.ErrorContains(t, checkRoom(shared, int64(machine.Totalram)*int64(machine.Unit)), "is memory of the program, but "+room.Group+" leaves")
}

// TestHeadOfProcess: the texts of /proc are decoded.
func TestHeadOfProcess(t *testing.T) {
	require.EqualValues(t, 4242, startTime("1 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 7 8"))
	require.Zero(t, startTime("1 (a"))
	require.Equal(t, [16]byte{1, 2, 15: 255}, bootID("01020000-0000-0000-0000-0000000000ff\n"))
	require.Zero(t, bootID("none"))
}

// TestTidy: the newest recordings are kept, except that a crash outlives what its process has ended, and a process those that began
// beside it. Names do not matter, if they are of the process in the head. The C library's test has the same files.
func TestTidy(t *testing.T) {
	killed := func(*recording.Head) {}
	ended := func(h *recording.Head) { h.Ended = true }
	beside := func(h *recording.Head) { h.Reading.Ticks = 1 } // written below: Head has no field for it
	incomplete := func(h *recording.Head) { h.Chunks = 0 }
	damaged := func(h *recording.Head) { h.Ended, h.Reading.Realtime = true, -1 }
	type left struct {
		name string
		pid  uint32
		kind func(*recording.Head)
	}
	date := func(day int) string { return fmt.Sprintf("-202001%02dT000000.000000000Z", day) }
	for name, test := range map[string]struct {
		pattern, own string // app.rec if there is no pattern
		files        []left // in the order in which they began
		removed      []int
	}{
		"nothing": {files: []left{{"app.rec" + date(1), 1, killed}, {"app.rec.2", 2, beside}}},
		"the first": {removed: []int{0, 1}, files: []left{
			{"app.rec" + date(7), 1, killed}, {"app.rec" + date(6), 2, killed}, {"app.rec" + date(5), 3, killed}, {"app.rec.4.17", 4, killed},
			{"app.rec" + date(3), 5, killed}, {"app.rec" + date(2), 6, killed}, {"app.rec" + date(1), 7, killed},
		}},
		"ended": {removed: []int{1, 2, 6, 7}, files: []left{
			{"app.rec" + date(1), 1, killed}, {"app.rec.2", 2, beside}, {"app.rec" + date(3), 3, ended}, {"app.rec.4", 4, beside},
			{"app.rec" + date(5), 5, killed}, {"app.rec" + date(6), 6, killed}, {"app.rec.7", 7, ended}, {"app.rec.8", 8, ended}, {"app.rec.9.2", 9, beside},
		}},
		"children": {removed: []int{1, 2, 3}, files: []left{
			{"app.rec" + date(1), 1, killed}, {"app.rec.2", 2, beside}, {"app.rec.3", 3, beside}, {"app.rec.4", 4, beside},
			{"app.rec.5", 5, beside}, {"app.rec.6", 6, beside}, {"app.rec.7", 7, beside}, {"app.rec.8", 8, beside},
		}},
		"incomplete": {removed: []int{1}, files: []left{{"app.rec" + date(1), 1, killed}, {"app.rec.2", 2, incomplete}}},
		"damaged": {removed: []int{5}, files: []left{
			{"app.rec.1", 1, killed}, {"app.rec.2", 2, killed}, {"app.rec.3", 3, killed}, {"app.rec.4", 4, killed},
			{"app.rec.5", 5, killed}, {"app.rec.6", 6, damaged},
		}},
		"others": {removed: []int{0}, files: []left{
			{"app.rec.1", 1, killed}, {"app.rec.2", 9, killed}, {"app.rec.x", 3, killed}, {"app.recx" + date(4), 4, killed}, {"app.rec", 5, killed}, {"2.app.rec", 2, ended},
			{"app.rec.6", 6, killed}, {"app.rec.7", 7, killed}, {"app.rec.8", 8, killed}, {"app.rec.9", 9, killed}, {"app.rec.10", 10, killed}, {"app.rec.11", 11, killed},
		}, own: "app.rec.11"},
		"%p": {pattern: "%p-app-%p.rec", own: "7-app-7.rec", removed: []int{1, 4}, files: []left{
			{"1-app-1.rec", 1, killed}, {"2-app-2.rec" + date(1), 2, beside}, {"3-app-3.rec", 3, beside}, {"4-app-4.rec.4", 4, beside}, {"5-app-5.rec", 5, ended},
			{"7-app-7.rec", 7, ended}, {"8-app-8.rec", 9, killed}, {"8-app-9.rec", 8, killed}, {"x8-app-8.rec", 8, killed},
			{"10-app-10.rec", 10, beside}, {"11-app-11.rec", 11, beside},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			var want []string
			for i, f := range test.files {
				h := recording.Head{PID: f.pid, Chunks: 4, Reading: recording.Reading{Realtime: int64(i + 1)}}
				f.kind(&h)
				b := h.Encode()
				b[recording.OffBeside] = byte(h.Reading.Ticks)
				require.NoError(t, os.WriteFile(f.name, b, 0o600))
			}
			for _, i := range test.removed {
				want = append(want, test.files[i].name)
			}
			removed, beside := here(t).tidy(cmp.Or(test.pattern, "app.rec"), test.own)
			require.ElementsMatch(t, want, strings.FieldsFunc(removed, func(r rune) bool { return r == ',' || r == ' ' }))
			require.Equal(t, len(test.files)-len(want), testenv.Entries("."))
			require.False(t, beside)
		})
	}
}

// here returns the working directory.
func here(t *testing.T) *directory {
	d, err := openDirectory(".", false)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// TestWritten: a recording that a process writes is neither counted nor removed. A process that begins meanwhile is beside it,
// unless it is beside another itself.
func TestWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	for i := range Keep + 1 {
		name := fmt.Sprintf("%d.rec", i+1)
		h := recording.Head{PID: uint32(i + 1), Chunks: 4}
		require.NoError(t, os.WriteFile(name, h.Encode(), 0o600))
	}
	first, err := os.OpenFile("1.rec", os.O_RDWR, 0)
	require.NoError(t, err)
	defer first.Close()
	require.NoError(t, unix.Flock(int(first.Fd()), unix.LOCK_EX))
	removed, beside := here(t).tidy("%p.rec", "99.rec")
	require.Empty(t, removed)
	require.True(t, beside)
	_, err = first.WriteAt([]byte{1}, recording.OffBeside)
	require.NoError(t, err)
	_, beside = here(t).tidy("%p.rec", "99.rec")
	require.False(t, beside)
	require.NoError(t, unix.Flock(int(first.Fd()), unix.LOCK_SH)) // as a process that may remove it
	removed, _ = here(t).tidy("%p.rec", "99.rec")
	require.Empty(t, removed)
	require.NoError(t, unix.Flock(int(first.Fd()), unix.LOCK_UN))
	removed, beside = here(t).tidy("%p.rec", "99.rec")
	require.Equal(t, "1.rec", removed)
	require.False(t, beside)
}

// TestReplaced: of processes that find a recording at the same time, one renames or removes it. The others leave the file alone that
// then has its name.
func TestReplaced(t *testing.T) {
	t.Chdir(t.TempDir())
	d := here(t)
	h := recording.Head{PID: 1, Chunks: 4}
	require.NoError(t, os.WriteFile("app.rec", h.Encode(), 0o600))
	first, err := d.openOurs("app.rec")
	require.NoError(t, err)
	second, err := d.openOurs("app.rec")
	require.NoError(t, err)
	defer second.Close()
	require.True(t, d.lockEnded(first))
	require.False(t, d.lockEnded(second))
	require.NoError(t, d.unlink("app.rec"))
	require.NoError(t, first.Close())
	require.NoError(t, os.WriteFile("app.rec", h.Encode(), 0o600))
	require.False(t, d.lockEnded(second))
}

// TestLockStays: a recording that the program does not refer to keeps its descriptor, and with it the lock, until it is closed.
func TestLockStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording")
	create := func() uintptr {
		f, err := Create(path, 0, false)
		require.NoError(t, err)
		require.NoError(t, f.Publish(path, path))
		return f.Fd()
	}
	fd := create()
	runtime.GC()
	runtime.GC()
	link, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
	require.NoError(t, err)
	require.Equal(t, path, link)
	for f := range mapped.Range {
		if f := f.(*File); f.Path == path {
			require.NoError(t, f.Close())
		}
	}
	require.NoFileExists(t, fmt.Sprint("/proc/self/fd/", fd))
}

func TestTimeSuffix(t *testing.T) {
	require.True(t, isTimeSuffix("-"+kind.FileTime(time.Now())))
	for _, other := range []string{
		"", "-", "-20261128T012345.123456789", "-20261128T012345.12345678Z", "-20261128T012345.123456789ZZ",
		"-2026112xT012345.123456789Z", "-20261128 012345.123456789Z", ".20261128T012345.123456789Z", "-20261128T0123450123456789Z",
	} {
		require.False(t, isTimeSuffix(other), other)
	}
}
