//go:build linux

package recordings

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/fusetest"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// recorded returns a recording of process 7 that began at a second, with an event 3 seconds later.
func recorded(second int) []byte {
	r := eventtest.Recording{Realtime: time.Duration(second) * time.Second}
	p := r.Probe("p", "tick", "n")
	r.Chunk(0, 0, eventtest.Fired{Probe: p, At: 3 * time.Second, Words: []uint64{1}})
	return r.Bytes()
}

// write writes files below a directory, and returns it as a root.
func write(t *testing.T, files map[string][]byte) root.Root {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return root.Root{File: f}
}

// with returns a recording with a word of its head.
func with(b []byte, offset int, word uint32) []byte {
	binary.LittleEndian.PutUint32(b[offset:], word)
	return b
}

// TestSparse: a file that is larger than any recording of a process is named without a look at its chunks.
func TestSparse(t *testing.T) {
	root := write(t, map[string][]byte{"web.rec": recorded(40)})
	require.NoError(t, os.Truncate(filepath.Join(root.Name(), "web.rec"), maxBytes+1))
	all, err := In(root, "/web.rec", AnyUser)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, [2]int64{40e9, 0}, [2]int64{all[0].Began, all[0].Last})
}

// TestIn: the recordings to a path are found by their names and heads, with what they tell.
func TestIn(t *testing.T) {
	const kept = "-20261126T051447.736571318Z"
	root := write(t, map[string][]byte{
		"rec/web.rec":            recorded(50),
		"rec/web.rec" + kept:     recorded(40),
		"rec/web.rec.7":          with(recorded(60), recording.OffBeside, 1),
		"rec/web.rec.7.2":        with(recorded(70), recording.OffEnded, 1),
		"rec/web.rec.8":          recorded(80), // of another process
		"rec/web.recx":           recorded(90),
		"rec/web.rec" + kept[1:]: recorded(90),
		"rec/web.rec-none":       []byte("other"),
		"rec/other.rec":          recorded(90),
	})
	dir := root.Name()
	require.NoError(t, os.Symlink("web.rec", filepath.Join(dir, "rec/web.rec-20261126T051447.736571319Z")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "rec/web.rec.7.3"), 0o600))
	user := uint32(os.Geteuid())
	all, err := In(root, "/rec/web.rec", user)
	require.NoError(t, err)
	size := int64(len(recorded(0)))
	want := []Recording{
		{PID: 7, File: "/rec/web.rec" + kept, Kept: true, Size: size, Began: 40e9, Last: 43e9},
		{PID: 7, File: "/rec/web.rec", Kept: true, Size: size, Began: 50e9, Last: 53e9},
		{PID: 7, File: "/rec/web.rec.7", Kept: true, Size: size, Began: 60e9, Last: 63e9},
		{PID: 7, File: "/rec/web.rec.7.2", Kept: true, Closed: true, Size: size, Began: 70e9, Last: 73e9},
	}
	for i := range all {
		all[i].id, want[i].worth, want[i].executable = fileID{}, all[i].worth, "/bin/app"
	}
	require.Equal(t, want, all)
	assert.Equal(t, "/rec/web.rec", Latest(all).File)
	assert.Equal(t, "/rec/web.rec.7", Latest(all[2:]).File)
	assert.Equal(t, "/rec/web.rec.7.2", Latest(all[3:]).File)
	assert.Nil(t, Latest(nil))
	assert.Equal(t, "/rec/web.rec", Newest(all).File)
	writes := Recording{File: "/rec/living.rec", Began: 30e9}
	assert.Equal(t, "/rec/web.rec", Newest(append([]Recording{writes}, all...)).File, "a crash tells more than a process that is alive")
	assert.Equal(t, "/rec/living.rec", Newest([]Recording{writes, all[3]}).File)
	assert.Equal(t, "/rec/web.rec.7.2", Newest(all[3:]).File)
	assert.Nil(t, Newest(nil))
	names := func(all []Recording, err error) (names []string) {
		require.NoError(t, err)
		for _, r := range all {
			names = append(names, filepath.Base(r.File))
		}
		return names
	}
	assert.Equal(t, []string{"web.rec" + kept, "web.rec", "web.rec.7", "web.rec.7.2", "web.rec.8", "other.rec", "web.rec" + kept[1:], "web.recx"}, names(Within(root, "/rec", user)))
	assert.Empty(t, names(Within(root, "/rec", user+1)))

	at := time.Unix(53, 0).Format("2006-01-02 15:04:05.000000")
	assert.Equal(t, "recorded in /rec/web.rec by an earlier process; last event "+at+"; "+strconv.FormatInt(size, 10)+" bytes", all[1].Text())
	assert.Contains(t, all[3].Text(), "by an earlier process, which has closed it; last event")

	others, err := In(root, "/rec/web.rec", user+1)
	require.NoError(t, err)
	require.Empty(t, others)
	_, err = In(root, "/none/web.rec", user)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestWritten: a recording that is locked is not kept.
func TestWritten(t *testing.T) {
	root := write(t, map[string][]byte{"web.rec": recorded(1)})
	f, err := os.Open(filepath.Join(root.Name(), "web.rec"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	all, err := In(root, "/%p.rec", AnyUser)
	require.NoError(t, err)
	require.Empty(t, all, "its name has no PID")
	all, err = In(root, "/web.rec", AnyUser)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.False(t, all[0].Kept)
	require.Nil(t, Latest(all))
}

// TestOf: a process without a mapped recording leads to those of its environment.
func TestOf(t *testing.T) {
	root := write(t, map[string][]byte{"web.rec-20261126T051447.736571318Z": recorded(3)})
	p := startWith(t, recording.Variable+"="+filepath.Join(root.Name(), "web.rec")+",1M")
	all := Of([]int{p, p})
	require.Len(t, all, 1)
	require.True(t, all[0].Kept)
	require.Equal(t, p, all[0].PID)
	require.Equal(t, int64(6e9), all[0].Last)
}

// TestOfOthers: a file that a process has mapped, or to which the path of its mapping leads by now, is its recording only if the
// process can have made it.
func TestOfOthers(t *testing.T) {
	testenv.NeedsRoot(t)
	b := append(recorded(3), make([]byte, recording.HeadBytes)...)
	root := write(t, map[string][]byte{"web.rec": b})
	name := filepath.Join(root.Name(), "web.rec")
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	memory, err := unix.Mmap(int(f.Fd()), 0, len(b), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(memory)
	files := func() (all []string) {
		for _, r := range Of([]int{os.Getpid()}) {
			all = append(all, r.File)
		}
		return all
	}
	require.Equal(t, []string{name}, files())
	require.NoError(t, os.Chown(name, 20001, 20001))
	require.Empty(t, files())
	l, err := Written(os.Getpid())
	require.NoError(t, err)
	require.Nil(t, l)
}

// TestWrittenUnknown: while a file system does not answer, it is unknown whether a process records.
func TestWrittenUnknown(t *testing.T) {
	fs := fusetest.Mount(t)
	fs.Serve(make([]byte, 1<<16))
	fd, err := unix.Open(filepath.Join(fs.Dir, "file"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	memory, err := unix.Mmap(fd, 0, 1<<16, unix.PROT_READ, unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer unix.Munmap(memory)
	l, err := Written(os.Getpid())
	require.NoError(t, err)
	require.Nil(t, l)
	fs.Hung.Store(true)
	defer fs.Hung.Store(false)
	l, err = Written(os.Getpid())
	require.ErrorIs(t, err, stall.Err)
	require.Nil(t, l)
}

// TestOfContainers: a process in a user namespace has made a file of its user, or of root there, as which it may have begun.
func TestOfContainers(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NeedsNamespaces(t, "user", unix.CLONE_NEWUSER)
	c := exec.Command("/bin/sleep", "60")
	users := []syscall.SysProcIDMap{{ContainerID: 7, HostID: 20020, Size: 3}, {ContainerID: 0, HostID: 20001, Size: 6}}
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, UidMappings: users, GidMappings: users,
		Credential: &syscall.Credential{Uid: 5, Gid: 5},
	}
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	f, err := os.Create(filepath.Join(t.TempDir(), "web.rec"))
	require.NoError(t, err)
	defer f.Close()
	for owner, ok := range map[int]bool{0: true, 20001: true, 20006: true, 20002: false, 20020: false, 5: false, 1: false} {
		require.NoError(t, f.Chown(owner, owner))
		err := CheckMaker(f, c.Process.Pid)
		if ok {
			require.NoError(t, err, owner)
		} else {
			require.ErrorContains(t, err, fmt.Sprintf("it belongs to user %d, but process %d does not run as that user", owner, c.Process.Pid))
		}
	}
	require.NoError(t, f.Chown(20001, 20001))
	require.Error(t, CheckMaker(f, os.Getpid()))
}

// startWith starts a process with an environment, and returns its PID.
func startWith(t *testing.T, environment ...string) int {
	t.Helper()
	c := exec.Command("/bin/sleep", "60")
	c.Env = environment
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	// The kernel closes the pipe by which Start waits for execve before the process has its environment.
	want := strings.Join(environment, "\x00") + "\x00"
	require.Eventually(t, func() bool {
		got, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", c.Process.Pid))
		return string(got) == want
	}, testenv.Patience, time.Millisecond)
	return c.Process.Pid
}
