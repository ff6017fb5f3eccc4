//go:build linux

package target

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
)

// mounts records which devices are FUSE file systems. A thread that waits for a FUSE server cannot
// even be killed once the server has read the request. Files there are therefore left alone unless
// they were named. A statfs would be a request too, so the type is read from mountinfo.
type mounts map[uint64]mount

type mount struct {
	fuse  bool
	until time.Time // when to look again
}

// isFUSE reports whether a device is a FUSE file system. The process has mapped files of the
// device.
func (m mounts) isFUSE(pid int, device uint64) bool {
	now := time.Now()
	known, ok := m[device]
	if !ok || now.After(known.until) {
		known = mount{proc.IsFUSE(pid, device), now.Add(entryTTL)}
		m[device] = known
	}
	return known.fuse
}
