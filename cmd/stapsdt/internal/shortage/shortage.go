//go:build linux

// Package shortage tells failures that pass, because something is short now, from those that come
// again whenever the same is tried.
package shortage

import (
	"errors"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"

	"golang.org/x/sys/unix"
)

// errnos are what system calls fail with if the process, the system or a control group has no
// descriptors or no memory left, and if a signal has interrupted them. ENOSPC is not among them: the
// verifier of BPF programs says so if its log is too long, which is a verdict.
var errnos = []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EINTR}

// Is reports whether an error is that of a shortage, so that the same may succeed later. A file system
// that does not answer is one.
func Is(err error) bool {
	return errors.Is(err, stall.Err) || slices.ContainsFunc(errnos, func(errno unix.Errno) bool { return errors.Is(err, errno) })
}
