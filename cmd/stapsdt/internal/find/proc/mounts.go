//go:build linux

package proc

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// IsFUSE reports whether a device is mounted as FUSE in the mount namespace of a process. A line of
// mountinfo is
//
//	36 35 0:52 / /mnt rw,noatime master:1 - fuse.sshfs host:/ rw
func IsFUSE(pid int, device uint64) (fuse bool) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", Task(pid)))
	if err != nil {
		return false
	}
	defer f.Close()
	number := fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mount, source, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(mount); len(fields) > 2 && fields[2] == number {
			kind, _, _ := strings.Cut(source, " ")
			return kind == "fuse" || kind == "fuseblk" || strings.HasPrefix(kind, "fuse.")
		}
	}
	return false
}
