//go:build linux

package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Owner identifies the owner of a process: a user, or root of a container.
type Owner struct {
	UID uint32
	// Namespace is the inode of the mount namespace if the user is root, and otherwise 0.
	Namespace uint64
}

func (o Owner) String() string {
	if o.Namespace != 0 {
		return fmt.Sprintf("root of mount namespace %d", o.Namespace)
	}
	return fmt.Sprintf("user %d", o.UID)
}

// OwnerOf returns the owner of a process. Owners are equal for processes that share a budget. The
// namespace is 0 if the process has ended.
func OwnerOf(pid int) Owner {
	o := Owner{UID: userOf(pid)}
	if o.UID == 0 {
		o.Namespace, _ = Inode(fmt.Sprintf("/proc/%d/ns/mnt", Task(pid)))
	}
	return o
}

// userOf returns the user who started a process: the real user, who can make even a program with
// the rights of another user map a file. For a process in a user namespace, where anyone can make
// up users, it is the user who created the namespace.
func userOf(pid int) uint32 {
	status, _ := ReadStatus(pid)
	uid, err := strconv.ParseUint(status.Word("Uid", 0), 10, 32)
	if err != nil {
		return overflowUser
	}
	if maker, ok := namespaceMaker(fmt.Sprintf("/proc/%d/ns/user", pid)); ok {
		return maker
	}
	return uint32(uid)
}

// RootOf returns the user who is root in the user namespace of a process, as this process sees that
// user. ok is false if the namespace is our own, has no root, or cannot be read.
func RootOf(pid int) (uid uint32, ok bool) {
	own, known := ownUsers()
	inode, _ := Inode(fmt.Sprintf("/proc/%d/ns/user", pid))
	if !known || inode == 0 || inode == own {
		return 0, false // the map of our own namespace has users of the one around it
	}
	users, _ := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	for line := range bytes.Lines(users) {
		if word(line, 0) == "0" {
			root, err := strconv.ParseUint(word(line, 1), 10, 32)
			return uint32(root), err == nil
		}
	}
	return 0, false
}

// The inodes of the namespaces of this process.
var (
	ownUsers  = sync.OnceValues(func() (uint64, bool) { return Inode("/proc/self/ns/user") })
	ownMounts = sync.OnceValues(func() (uint64, bool) { return Inode("/proc/self/ns/mnt") })
)

// overflowUser is the UID that is shown for users who have none in this namespace.
const overflowUser = 65534

// namespaceMaker returns the user who created a user namespace: the outermost one that is not our
// own. ok is false if it is our own, or cannot be read.
func namespaceMaker(path string) (uid uint32, ok bool) {
	own, known := ownUsers()
	if inode, _ := Inode(path); !known || inode == 0 || inode == own {
		return 0, false
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for err == nil {
		if maker, makerErr := unix.IoctlGetUint32(fd, unix.NS_GET_OWNER_UID); makerErr == nil {
			uid, ok = maker, true
		}
		var parent int
		parent, err = unix.IoctlRetInt(fd, unix.NS_GET_PARENT)
		unix.Close(fd)
		if err != nil {
			break
		}
		var stat unix.Stat_t
		if unix.Fstat(parent, &stat) != nil || stat.Ino == own {
			unix.Close(parent)
			break
		}
		fd = parent
	}
	return uid, ok
}

// Inode returns the inode of a file, such as that of a namespace in /proc.
func Inode(path string) (inode uint64, ok bool) {
	var stat unix.Stat_t
	err := unix.Stat(path, &stat)
	return stat.Ino, err == nil
}
