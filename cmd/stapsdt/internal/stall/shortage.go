//go:build linux

package stall

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// errnos are the errors of system calls if the process, the system or a control group has no
// descriptors or no memory left, or if a signal has interrupted them. ENOSPC is not among them: the
// verifier of BPF programs returns it if its log is too long, which is a verdict.
var errnos = []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EINTR}

// Passes reports whether the operation may succeed later, because there was a shortage, or a file system did not answer.
func Passes(err error) bool {
	return errors.Is(err, Err) || slices.ContainsFunc(errnos, func(errno unix.Errno) bool { return errors.Is(err, errno) })
}
