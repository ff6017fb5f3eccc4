//go:build linux

package target

import "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"

// isFUSE reports whether a device is a FUSE file system. The process has mapped files of the
// device.
//
// A thread that waits for a FUSE server cannot even be killed once the server has read the request.
// Files there are therefore not opened unless the user has named them, or has named their process
// and has mounted the file system. A statfs would be a request too, so the type is read from
// mountinfo.
func (f *Finder) isFUSE(pid int, device uint64) bool {
	fuse, known := f.fuse[device]
	if !known {
		fuse = proc.IsFUSE(pid, device)
		f.fuse[device] = fuse
	}
	return fuse
}
