package recordfile

import (
	"fmt"
	"os"

	"github.com/go-stapsdt/stapsdt/internal/region"

	"golang.org/x/sys/unix"
)

// The file systems that write changes to another place (copy-on-write), so that an allocated block
// does not guarantee that there will be space.
const (
	btrfs    = 0x9123683e
	zfs      = 0x2fc12fc1
	bcachefs = 0xca451a4e
	tmpfs    = 0x01021994
)

// checkLocal refuses a network or FUSE file system.
func checkLocal(fd int, name string) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if region.IsNetwork(&fs) {
		return fmt.Errorf("%s: it is on a network or FUSE file system (type %#x), whose server could stop the program", name, uint32(fs.Type))
	}
	return nil
}

// checkRoom refuses a local file system on which allocated space is not guaranteed, and sizes for
// which allocating would be fatal.
func checkRoom(dir *os.File, size int64) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	switch number := uint32(fs.Type); {
	case number == btrfs || number == zfs || number == bcachefs:
		return fmt.Errorf("%s: its file system (type %#x) writes each change to another place, and cannot promise room", dir.Name(), number)
	case number == tmpfs:
		if room := MemoryRoom(); size > room.Bytes {
			return fmt.Errorf("%s: a recording of %d bytes is memory of the program, but %s leaves %d", dir.Name(), size, room.Group, max(room.Bytes, 0))
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if uint64(size) > limit.Cur { // the kernel would send SIGXFSZ
		return fmt.Errorf("a recording of %d bytes is larger than the limit of files (RLIMIT_FSIZE), %d: %w", size, limit.Cur, unix.EFBIG)
	}
	return nil
}

// allocate reserves all the space of the file, so that no write to its mapping needs more.
func allocate(f *os.File, size int64) error {
	for {
		switch err := unix.Fallocate(int(f.Fd()), 0, 0, size); err {
		case nil:
			return nil
		case unix.EINTR:
		case unix.EOPNOTSUPP, unix.ENOSYS:
			return fmt.Errorf("%s: its file system cannot promise room for it: %w", f.Name(), err)
		default:
			var fs unix.Statfs_t
			if err == unix.ENOSPC && unix.Fstatfs(int(f.Fd()), &fs) == nil {
				return fmt.Errorf("%s: a recording takes %d bytes, but its file system has %d: %w", f.Name(), size, int64(fs.Bavail)*int64(fs.Bsize), err)
			}
			return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}
