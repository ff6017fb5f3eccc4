//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x) && !stapsdt_noload

package region

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/fusetest"

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
	fs := fusetest.Mount(t)
	requireUntouched := func() {
		t.Helper()
		require.True(t, fs.Listed(), "it was asked for something")
		require.False(t, fs.Touched())
	}
	im := testImage(t, 1)
	nowhere(t)
	for _, dir := range []string{fs.Dir, fs.Dir + "/new"} {
		err := requireRefused(t, im, dir)
		require.ErrorIs(t, err, errNetwork, dir)
		require.ErrorContains(t, err, "network or FUSE")
	}
	t.Setenv("XDG_RUNTIME_DIR", fs.Dir)
	t.Setenv("TMPDIR", fs.Dir)
	requireMemory(t, load(t, im, Options{}))
	requireUntouched()

	// A server that does not answer statfs is not taken for a disk.
	fs.Mute.Store(true)
	err := requireRefused(t, im, fs.Dir)
	require.ErrorIs(t, err, unix.ENOSYS)
	requireUntouched()
}
