//go:build linux

package proc

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// IsFUSE reports whether a device is mounted as FUSE in the mount namespace of a process.
func IsFUSE(pid int, device uint64) (fuse bool) {
	fuse, _ = fuseMount(Task(pid), device)
	return fuse
}

// IsOwnFUSE reports whether a device is mounted as FUSE in our own mount namespace, by our own
// user.
func IsOwnFUSE(device uint64) bool {
	fuse, options := fuseMount(os.Getpid(), device)
	user := fmt.Sprintf("user_id=%d", os.Geteuid())
	return fuse && slices.Contains(strings.Split(options, ","), user)
}

// fuseMount reports whether a device is mounted as FUSE in the mount namespace of a task, and
// returns the options of the file system. A line of mountinfo is
//
//	36 35 0:52 / /mnt rw,noatime master:1 - fuse.sshfs host:/ rw,user_id=0,group_id=0
func fuseMount(task int, device uint64) (fuse bool, options string) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", task))
	if err != nil {
		return false, ""
	}
	defer f.Close()
	number := fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mount, source, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(mount); len(fields) > 2 && fields[2] == number {
			kind, _, _ := strings.Cut(source, " ")
			fuse = kind == "fuse" || kind == "fuseblk" || strings.HasPrefix(kind, "fuse.")
			return fuse, source[strings.LastIndexByte(source, ' ')+1:]
		}
	}
	return false, ""
}
