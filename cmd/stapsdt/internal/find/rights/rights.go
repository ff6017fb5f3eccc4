//go:build linux

// Package rights determines which capabilities are missing.
package rights

import (
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"golang.org/x/sys/unix"
)

// Capability is a Linux capability.
type Capability int

// The capabilities that tracing may need.
const (
	// Ptrace opens the files, the memory and the memory map of other users' processes.
	Ptrace Capability = unix.CAP_SYS_PTRACE
	// Search looks into the directories of other users, such as /proc/PID/map_files.
	Search Capability = unix.CAP_DAC_READ_SEARCH
	// Restore opens /proc/PID/map_files, from Linux 5.9.
	Restore Capability = unix.CAP_CHECKPOINT_RESTORE
	// BPF and Perfmon load BPF programs and attach them, from Linux 5.8.
	BPF     Capability = unix.CAP_BPF
	Perfmon Capability = unix.CAP_PERFMON
	// Admin opens the perf event of a uprobe, from Linux 6.16 and in older kernels with the
	// same fix (CVE-2025-38466).
	Admin Capability = unix.CAP_SYS_ADMIN
	// Resource raises the limit of locked memory, against which BPF maps count before
	// Linux 5.11.
	Resource Capability = unix.CAP_SYS_RESOURCE
)

var names = map[Capability]string{
	Ptrace: "CAP_SYS_PTRACE", Search: "CAP_DAC_READ_SEARCH", Restore: "CAP_CHECKPOINT_RESTORE", BPF: "CAP_BPF", Perfmon: "CAP_PERFMON",
	Admin: "CAP_SYS_ADMIN", Resource: "CAP_SYS_RESOURCE",
}

// String returns the name, as in CAP_BPF.
func (c Capability) String() string { return names[c] }

// Error means that an operation was refused. It names the capabilities that the operation needs
// and this process does not have.
type Error struct {
	Op      string // the operation, such as "attaching to probes"
	Missing []Capability
	Err     error // the kernel's error
}

// New returns an Error for an operation that needs capabilities.
func New(op string, err error, needed ...Capability) *Error {
	e := &Error{Op: op, Err: err}
	for _, c := range needed {
		if !Has(c) {
			e.Missing = append(e.Missing, c)
		}
	}
	return e
}

// IsRefusal reports whether the kernel has refused an operation for lack of rights.
func IsRefusal(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }

// Wrap returns an Error if the kernel has refused an operation, and otherwise adds the operation to
// err.
func Wrap(op string, err error, needed ...Capability) error {
	if IsRefusal(err) {
		return New(op, err, needed...)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// Has reports whether this process may do what a capability allows. CAP_SYS_ADMIN includes
// the newer capabilities.
func Has(c Capability) bool {
	effective := effective()
	admin := (c == Restore || c == BPF || c == Perfmon) && effective&(1<<unix.CAP_SYS_ADMIN) != 0
	return effective&(1<<c) != 0 || admin
}

// None reports whether this process has no capability at all, like the program of an ordinary user.
func None() bool { return effective() == 0 }

// effective returns the set of effective capabilities, or all capabilities if the set cannot be
// read.
func effective() uint64 {
	var halves [2]unix.CapUserData
	if unix.Capget(
		&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &halves[0],
	) != nil {
		return ^uint64(0)
	}
	return uint64(halves[1].Effective)<<32 | uint64(halves[0].Effective)
}

// Error returns one sentence.
func (e *Error) Error() string {
	if len(e.Missing) == 0 {
		// No capability is missing, so something else forbids the operation, such as a security
		// module, seccomp or a user namespace.
		return e.Op + " is not permitted here, although no capability is missing: " +
			Reason(e.Err) + " (a seccomp filter, a security module or a user namespace can be the cause)"
	}
	var all []string
	for _, c := range e.Missing {
		all = append(all, c.String())
	}
	return fmt.Sprintf("%s needs %s", e.Op, text.List(all, "and"))
}

// Reason returns the kernel's error, without the hints that a package has added for its own users.
func Reason(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// Raw returns the kernel's error in its own words.
func (e *Error) Raw() string { return e.Err.Error() }

// Unwrap returns the kernel's error.
func (e *Error) Unwrap() error { return e.Err }
