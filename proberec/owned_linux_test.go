package proberec

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOnlyRecordings: Create neither renames, counts nor removes a file that does not begin like a recording.
func TestOnlyRecordings(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	times := recordfile.Keep + 2
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	for _, text := range []string{"precious", "", recording.Magic[:7]} {
		write(path, text)
		for range times {
			_, err := Create(path, 1)
			require.ErrorContains(t, err, "proberec: create "+path+": the file there is not a recording")
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
		require.Equal(t, 1, testenv.Entries(dir))
	}
	require.NoError(t, os.Remove(path))

	var others []string
	for i := range times {
		others = append(others, fmt.Sprintf("%s-19991231T235959.00000000%dZ", path, i), fmt.Sprint(path, ".", 2000+i))
	}
	others = append(others, fmt.Sprint(path, ".", os.Getpid()))
	for _, name := range others {
		write(name, "precious")
	}
	var kept []string
	for range times {
		first, err := Create(path, 1)
		require.NoError(t, err)
		second, err := Create(path, 1)
		require.NoError(t, err)
		require.Regexp(t, fmt.Sprintf(`^%s\.%d\.\d+$`, path, os.Getpid()), second.Path())
		if previous := first.Previous(); previous != "" {
			kept = append(kept, previous)
		}
		require.NoError(t, first.Close())
		require.NoError(t, second.Close())
	}
	for _, name := range others {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, "precious", string(b))
	}
	require.Len(t, kept, times-1)
	require.FileExists(t, kept[len(kept)-1])
	require.Equal(t, len(others)+recordfile.Keep+2, testenv.Entries(dir))
}

// TestStrangers: what another user has planted in a directory that all share, under every name that Create may want, is neither opened, renamed,
// counted nor removed, and does not keep a service from recording.
func TestStrangers(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NotEmulated(t, "it starts itself as another program")
	const user, stranger = 20002, 20001
	plants := map[string]func(path string) error{
		"file":      func(path string) error { return os.WriteFile(path, []byte(recording.Magic), 0o666) },
		"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o666) },
		"directory": func(path string) error { return os.Mkdir(path, 0o777) },
		"link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
	}
	for _, uid := range []uint32{0, user} {
		for kind, plant := range plants {
			if uid == 0 && kind != "file" {
				continue // a user with fewer rights shows as much
			}
			t.Run(fmt.Sprintf("user %d, %s", uid, kind), func(t *testing.T) {
				shared, err := os.MkdirTemp("/dev/shm", "strangers")
				require.NoError(t, err)
				t.Cleanup(func() { os.RemoveAll(shared) })
				require.NoError(t, os.Chmod(shared, os.ModeSticky|0o777))
				path := filepath.Join(shared, "shop.rec")
				var planted []string
				add := func(name string) {
					require.NoError(t, plant(name))
					require.NoError(t, os.Lchown(name, stranger, stranger))
					planted = append(planted, name)
				}
				for i := range recordfile.Keep + 1 {
					add(fmt.Sprintf("%s-19991231T235959.00000000%dZ", path, i))
					add(fmt.Sprintf("%s-99991231T235959.00000000%dZ", path, i))
					add(fmt.Sprint(path, ".", 2000+i))
				}
				first := killed(t, path, uid) // a crash
				require.Equal(t, path, first)
				second := killed(t, path, uid)
				require.Equal(t, path, second)
				own, err := filepath.Glob(path + "-20*")
				require.NoError(t, err)
				require.Len(t, own, 1)
				checkKilled(t, own[0])

				require.NoError(t, os.Remove(path))
				add(path)
				require.Regexp(t, `^`+path+`\.\d+$`, killed(t, path, uid))
				for _, name := range planted {
					info, err := os.Lstat(name)
					require.NoError(t, err)
					require.EqualValues(t, stranger, info.Sys().(*syscall.Stat_t).Uid)
				}
			})
		}
	}
}

// killed starts a child of a user that records to a path, and kills it. It returns where the recording is.
func killed(t *testing.T, path string, user uint32) string {
	t.Helper()
	cmd, at := startChild(t, path, user)
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	return at
}

// TestWay: Create refuses a directory that another user can replace, because a directory above it or a link to it is theirs.
func TestWay(t *testing.T) {
	testenv.NeedsRoot(t)
	const stranger = 20001
	dir := t.TempDir()
	mkdir := func(owner int, mode os.FileMode, name string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(name, 0o700))
		require.NoError(t, os.Chmod(name, mode))
		require.NoError(t, os.Chown(name, owner, owner))
		return name
	}
	refuses := func(in, message string) {
		t.Helper()
		_, err := Create(filepath.Join(in, "flight"), 1)
		require.ErrorContains(t, err, message)
		left, err := filepath.Glob(filepath.Join(in, "flight*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	accepts := func(in string) {
		t.Helper()
		r, err := Create(filepath.Join(in, "flight"), 1)
		require.NoError(t, err)
		require.NoError(t, r.Close())
	}
	theirs := mkdir(stranger, 0o755, "theirs")
	sub := mkdir(0, 0o700, "theirs/sub")
	refuses(sub, theirs+": it belongs to user 20001")
	open := mkdir(0, 0o777, "open")
	accepts(mkdir(0, 0o700, "open/sub"))
	refuses(open, open+": other users may write to it, and could replace a recording: chmod go-w keeps them out; or record to a directory of its own in it, such as "+open+"/rec")
	refuses(mkdir(stranger, 0o700, "open/theirs"), open+"/theirs: it belongs to user 20001")
	refuses(mkdir(0, 0o777, "open/open"), open+"/open: other users may write to it")
	mkdir(0, 0o775, "group")
	accepts(mkdir(0, 0o700, "group/sub"))
	refuses(mkdir(0, 0o775, "group/last"), "other users may write to it")
	mkdir(0, os.ModeSticky|0o777, "sticky")
	accepts(mkdir(0, 0o700, "sticky/sub"))

	good := mkdir(0, 0o700, "good")
	link := func(owner int, target, name string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.Symlink(target, name))
		require.NoError(t, os.Lchown(name, owner, owner))
		return name
	}
	refuses(link(stranger, good, "sticky/link"), "sticky/link: it belongs to user 20001")
	refuses(link(0, "theirs/../good", "through"), theirs+": it belongs to user 20001")
	accepts(link(0, "../sticky//./../good", "sticky/own"))

	refuses(link(0, mkdir(0, 0o700, "empty"), "open/link"), open+"/link: other users may write to "+open+", and could replace this link: name the directory to which it leads")
	accepts(open + "/sub/../../good")
}

// TestRecordingInEmptyDir: a directory of root to which everyone may write, as a volume of Kubernetes on a disk, is enough for a
// recording in a directory of its own there, which Create makes. What another user has put there instead is refused.
func TestRecordingInEmptyDir(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NotEmulated(t, "it starts itself as another program")
	const user, stranger = 20002, 20001
	volume := filepath.Join(t.TempDir(), "volume")
	require.NoError(t, os.Chmod(filepath.Dir(volume), 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(volume)), 0o755))
	require.NoError(t, os.Mkdir(volume, 0o700))
	require.NoError(t, os.Chmod(volume, 0o777))
	rec := filepath.Join(volume, "rec")
	path := filepath.Join(rec, "shop.rec")

	require.Equal(t, path, killed(t, path, user))
	require.NotZero(t, checkKilled(t, path))
	info, err := os.Stat(rec)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())
	require.EqualValues(t, user, info.Sys().(*syscall.Stat_t).Uid)
	require.Equal(t, path, killed(t, path, user))
	kept, err := filepath.Glob(path + "-20*")
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.NotZero(t, checkKilled(t, kept[0]))

	for kind, plant := range map[string]struct {
		make func() error
		want string
	}{
		"directory": {func() error { return os.Mkdir(rec, 0o777) }, rec + ": it belongs to user 20001, who could replace a recording"},
		"link":      {func() error { return os.Symlink("/etc", rec) }, rec + ": it belongs to user 20001, who could replace a recording"},
		"FIFO":      {func() error { return unix.Mkfifo(rec, 0o777) }, rec + ": it belongs to user 20001, who could replace a recording"},
	} {
		require.NoError(t, os.Rename(rec, rec+"-before-"+kind))
		require.NoError(t, plant.make())
		require.NoError(t, os.Lchown(rec, stranger, stranger))
		_, err := Create(path, 1)
		require.EqualError(t, err, "proberec: create "+path+": "+plant.want)
		require.NoFileExists(t, "/etc/shop.rec")
	}
}

// TestUnlistedDirectory: in a directory that its user may not list, a process records, and keeps the recording of the last one.
func TestUnlistedDirectory(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NotEmulated(t, "it starts itself as another program")
	const user = 20002
	spool := filepath.Join(t.TempDir(), "spool")
	require.NoError(t, os.Chmod(filepath.Dir(spool), 0o711))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(spool)), 0o711))
	require.NoError(t, os.Mkdir(spool, 0o700))
	require.NoError(t, os.Chmod(spool, os.ModeSticky|0o733))
	path := filepath.Join(spool, "shop.rec")
	for range 2 {
		require.Equal(t, path, killed(t, path, user))
		require.NotZero(t, checkKilled(t, path))
	}
	require.Equal(t, 2, testenv.Entries(spool))
}
