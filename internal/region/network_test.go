//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && !stapsdt_noload

package region

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestFileSystems: which of them are refused, by what statfs(2) says.
func TestFileSystems(t *testing.T) {
	require.True(t, slices.IsSorted(networks))
	for name, number := range map[string]uint32{
		"nfs": unix.NFS_SUPER_MAGIC, "fuse": unix.FUSE_SUPER_MAGIC, "cifs": unix.CIFS_SUPER_MAGIC, "smb2": unix.SMB2_SUPER_MAGIC,
		"9p": unix.V9FS_MAGIC, "ceph": unix.CEPH_SUPER_MAGIC, "afs": unix.AFS_FS_MAGIC, "ocfs2": unix.OCFS2_SUPER_MAGIC,
	} {
		require.ErrorIs(t, checkFileSystem(fileSystem(number)), errNetwork, name)
	}
	for name, number := range map[string]uint32{
		"tmpfs": unix.TMPFS_MAGIC, "ext4": unix.EXT4_SUPER_MAGIC, "xfs": unix.XFS_SUPER_MAGIC, "overlay": unix.OVERLAYFS_SUPER_MAGIC,
		"btrfs": unix.BTRFS_SUPER_MAGIC,
	} {
		fs := fileSystem(number)
		require.NoError(t, checkFileSystem(fs), name)
		fs.Flags = unix.ST_NOEXEC
		require.ErrorIs(t, checkFileSystem(fs), errNoExec, name)
	}
}

// TestTableOfTheCLibrary: the C library refuses the same file systems.
func TestTableOfTheCLibrary(t *testing.T) {
	source, err := os.ReadFile("../../cstapsdt/filesystem.c")
	require.NoError(t, err)
	var theirs []uint32
	for _, row := range regexp.MustCompile(`(?m)^\t\{(0x[0-9a-f]{8}), "\w+"\},$`).FindAllSubmatch(source, -1) {
		number, err := strconv.ParseUint(string(row[1]), 0, 32)
		require.NoError(t, err)
		theirs = append(theirs, uint32(number))
	}
	slices.Sort(theirs)
	require.Equal(t, networks, theirs)
}

// fileSystem returns what statfs says of a type of file system. The field's type is
// another on each architecture.
func fileSystem(number uint32) *unix.Statfs_t {
	fs := new(unix.Statfs_t)
	setType(&fs.Type, number)
	return fs
}

func setType[T int32 | uint32 | int64](field *T, number uint32) { *field = T(number) }

// TestFUSE: nothing is made or opened on a FUSE file system, whose server could let an
// idle Fire wait. Here it is this test.
func TestFUSE(t *testing.T) {
	testenv.NotEmulated(t, "the kernel speaks to a server in its own byte order")
	testenv.NeedsRoot(t)
	fs := mountFUSE(t)
	im := testImage(t, 1)
	nowhere(t)
	for _, dir := range []string{fs.dir, fs.dir + "/new"} {
		err := requireRefused(t, im, dir)
		require.ErrorIs(t, err, errNetwork, dir)
		require.ErrorContains(t, err, "network or FUSE")
	}
	t.Setenv("XDG_RUNTIME_DIR", fs.dir)
	t.Setenv("TMPDIR", fs.dir)
	requireMemory(t, load(t, im, Options{}))
	fs.requireUntouched(t)

	// A server that does not answer statfs is not taken for a disk.
	fs.mute.Store(true)
	err := requireRefused(t, im, fs.dir)
	require.ErrorIs(t, err, unix.ENOSYS)
	fs.requireUntouched(t)
}

// The operations of linux/fuse.h that the server answers, and those that would change
// what is in the file system.
const (
	fuseLookup, fuseForget, fuseGetattr = 1, 2, 3
	fuseMknod, fuseMkdir, fuseOpen      = 8, 9, 14
	fuseStatfs, fuseInit, fuseOpendir   = 17, 26, 27
	fuseCreate, fuseTmpfile             = 35, 51
)

// fuse is a file system with nothing but its root, owned by root.
type fuse struct {
	dir  string
	fd   int
	mute atomic.Bool // statfs is not answered

	mu    sync.Mutex
	asked []uint32
}

func mountFUSE(t *testing.T) *fuse {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	testenv.Needs(t, "/dev/fuse", err)
	fs := &fuse{dir: t.TempDir(), fd: fd}
	err = unix.Mount("stapsdt", fs.dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd))
	if err != nil {
		unix.Close(fd)
		testenv.Needs(t, "the right to mount", err)
	}
	done := make(chan struct{})
	go func() { defer close(done); fs.serve() }()
	t.Cleanup(func() {
		require.NoError(t, unix.Unmount(fs.dir, unix.MNT_DETACH))
		<-done
		unix.Close(fd)
	})
	return fs
}

// serve answers until the file system is unmounted.
func (fs *fuse) serve() {
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(fs.fd, buf)
		if err == unix.EINTR || err == unix.ENOENT || err == unix.EAGAIN {
			continue
		}
		if err != nil || n < 40 {
			return // ENODEV: it is unmounted
		}
		op := binary.NativeEndian.Uint32(buf[4:])
		fs.mu.Lock()
		fs.asked = append(fs.asked, op)
		fs.mu.Unlock()
		if op == fuseForget {
			continue
		}
		body, failed := fs.answer(op)
		reply := make([]byte, 16, 16+len(body))
		binary.NativeEndian.PutUint32(reply, uint32(16+len(body)))
		binary.NativeEndian.PutUint32(reply[4:], uint32(-int32(failed)))
		copy(reply[8:16], buf[8:16]) // which request it is
		unix.Write(fs.fd, append(reply, body...))
	}
}

// answer returns the body of an answer, or an error.
func (fs *fuse) answer(op uint32) ([]byte, unix.Errno) {
	words := func(list ...uint32) (body []byte) {
		for _, w := range list {
			body = binary.NativeEndian.AppendUint32(body, w)
		}
		return body
	}
	switch op {
	case fuseInit: // version 7.31, which has 64 bytes
		return append(words(7, 31, 0, 0, 0, 1<<16), make([]byte, 40)...), 0
	case fuseGetattr: // valid for no time; then the inode: 1, a directory of root's
		body := make([]byte, 16+88)
		body[16] = 1
		binary.NativeEndian.PutUint32(body[16+60:], unix.S_IFDIR|0o700)
		binary.NativeEndian.PutUint32(body[16+64:], 2)
		return body, 0
	case fuseStatfs:
		if !fs.mute.Load() {
			return make([]byte, 80), 0
		}
	case fuseOpendir:
		return make([]byte, 16), 0
	case fuseLookup:
		return nil, unix.ENOENT
	}
	return nil, unix.ENOSYS
}

// requireUntouched finds that the server was not asked for a file or a new directory, and
// that it was asked for something.
func (fs *fuse) requireUntouched(t *testing.T) {
	t.Helper()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	require.Contains(t, fs.asked, uint32(fuseOpendir))
	for _, op := range []uint32{fuseMknod, fuseMkdir, fuseOpen, fuseCreate, fuseTmpfile} {
		require.NotContains(t, fs.asked, op)
	}
}
