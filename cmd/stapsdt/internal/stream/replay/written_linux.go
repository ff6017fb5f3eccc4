package replay

import (
	"os"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"

	"golang.org/x/sys/unix"
)

// written reports whether a process may write to a file: its writer has locked it, or has closed
// all descriptors, as daemons do. Trying the lock could obstruct a process that begins to write, so
// it is tried last.
func written(f *os.File, h *recording.Head) bool {
	if recordfile.Runs(h) || unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return true
	}
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	return false
}
