//go:build linux

package stall

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// errnos are what system calls fail with if the process, the system or a control group has no
// descriptors or no memory left, and if a signal has interrupted them. ENOSPC is not among them: the
// verifier of BPF programs says so if its log is too long, which is a verdict.
var errnos = []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EINTR}

// Passes reports whether the same may succeed later, because the error is of a shortage, or of a file system that does not answer.
func Passes(err error) bool {
	return errors.Is(err, Err) || slices.ContainsFunc(errnos, func(errno unix.Errno) bool { return errors.Is(err, errno) })
}
