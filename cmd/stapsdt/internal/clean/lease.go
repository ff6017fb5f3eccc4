//go:build linux

package clean

import (
	"slices"

	"golang.org/x/sys/unix"
)

// leased are the file systems on which a file that is mapped counts as open: a mapping keeps
// the file that it was made from. On overlayfs it keeps another one instead.
var leased = []uint32{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC,
}

// use tells whether a file is in use.
type use int

const (
	useUnknown use = iota
	used
	unused
)

// leaseable reports whether a lease on a file of a directory tells if the file is in use.
func leaseable(dir int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(dir, &fs) == nil && slices.Contains(leased, uint32(fs.Type))
}

// usage asks the kernel whether another process, or another descriptor of this one, has a
// file open or mapped. The file must have no name by which others open it: while the lease is
// there, they would wait, or fail.
func usage(fd int) use {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	switch err {
	case nil:
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
			return useUnknown
		}
		return unused
	case unix.EAGAIN:
		return used
	}
	return useUnknown // another's file without CAP_LEASE, or no leases (fs.leases-enable)
}
