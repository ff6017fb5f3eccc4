package recordfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/region"

	"golang.org/x/sys/unix"
)

// checkWay refuses a directory in which another user could replace the file, and one that another user could replace: each directory that
// leads to it, and each link. On the way, a directory of root may be writable for a group that root has chosen, as /var/log is, and a mounted
// directory may be writable for everyone: a volume of Kubernetes is like that, and all its users share the pod.
func checkWay(dir *os.File) error {
	var last unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &last); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if err := checkDirectory(dir.Name(), &last); err != nil {
		return err
	}
	whole, err := filepath.Abs(dir.Name())
	if err != nil {
		return err
	}
	rest, at, links := strings.Split(whole, "/"), "/", 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			at = filepath.Dir(at) // the parent was already checked
			continue
		}
		next := filepath.Join(at, name)
		var above, st unix.Stat_t
		if err := errors.Join(unix.Lstat(at, &above), unix.Lstat(next, &st)); err != nil {
			return &os.PathError{Op: "lstat", Path: next, Err: err}
		}
		if st.Uid == region.OverflowUser && !region.AllUsersMapped() {
			st.Uid = 0 // the owner is unknown, and the root of a sandbox often belongs to such a user
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			if st.Dev != above.Dev {
				st.Mode |= unix.S_ISVTX
			}
			if st.Uid == 0 {
				st.Mode &^= 0o020
			}
			at = next
		} else if links++; links > maxLinks {
			return &os.PathError{Op: "open", Path: whole, Err: unix.ELOOP}
		} else {
			target, err := os.Readlink(next)
			if err != nil {
				return err
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
			st.Mode = 0 // a link's mode grants everyone everything
		}
		if err := checkDirectory(next, &st); err != nil {
			return err
		}
	}
	return nil
}

// maxLinks is the maximum number of links that the kernel follows.
const maxLinks = 40

// checkDirectory refuses a directory in which, or a link with which, another user could replace a
// recording.
func checkDirectory(name string, st *unix.Stat_t) error {
	if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%s: it belongs to user %d, who could replace a recording", name, st.Uid)
	}
	if st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("%s: other users may write to it, and could replace a recording: chmod go-w keeps them out", name)
	}
	return nil
}

// The file systems that write changes to another place (copy-on-write), so that an allocated block
// does not guarantee that there will be space.
const (
	btrfs    = 0x9123683e
	zfs      = 0x2fc12fc1
	bcachefs = 0xca451a4e
	tmpfs    = 0x01021994
)

// checkRoom refuses a file system on which allocated space is not guaranteed, and sizes for which
// allocating would be fatal.
func checkRoom(dir *os.File, size int64) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	switch number := uint32(fs.Type); {
	case region.IsNetwork(&fs):
		return fmt.Errorf("%s: it is on a network or FUSE file system (type %#x), whose server could stop the program", dir.Name(), number)
	case number == btrfs || number == zfs || number == bcachefs:
		return fmt.Errorf("%s: its file system (type %#x) writes each change to another place, and cannot promise room", dir.Name(), number)
	case number == tmpfs:
		if room, path := MemoryRoom(); size > room {
			return fmt.Errorf("%s: a recording of %d bytes is memory of the program, but %s leaves %d", dir.Name(), size, path, max(room, 0))
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
