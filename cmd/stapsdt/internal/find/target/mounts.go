//go:build linux

package target

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"

	"golang.org/x/sys/unix"
)

// mounts records which devices are FUSE file systems. A thread that waits for a FUSE server cannot
// even be killed once the server has read the request. Files there are therefore left alone unless
// they were named. A statfs would be a request too, so the type is read from mountinfo.
type mounts map[uint64]mount

type mount struct {
	fuse  bool
	until time.Time // when to look again
}

// isFUSE reports whether a device is a FUSE file system. The process has mapped files of the device.
func (m mounts) isFUSE(pid int, device uint64) bool {
	now := time.Now()
	known, ok := m[device]
	if !ok || now.After(known.until) {
		known = mount{readType(pid, device), now.Add(entryTTL)}
		m[device] = known
	}
	return known.fuse
}

// readType reports whether a device is mounted as FUSE in the mount namespace of a process. A line of mountinfo is
//
//	36 35 0:52 / /mnt rw,noatime master:1 - fuse.sshfs host:/ rw
func readType(pid int, device uint64) (fuse bool) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", proc.Task(pid)))
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
