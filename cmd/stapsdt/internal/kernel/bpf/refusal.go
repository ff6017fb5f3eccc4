//go:build linux

package bpf

import (
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Refusal is the kernel's refusal of an operation. Its text is a sentence with the remedy, and Raw
// is the text of the kernel.
type Refusal struct {
	what, reason string
	err          error
}

// Error returns the sentence with the remedy.
func (r *Refusal) Error() string { return r.what + ": " + r.reason }

// Unwrap returns the kernel's error.
func (r *Refusal) Unwrap() error { return r.err }

// Raw returns the kernel's error, with the whole log of the verifier.
func (r *Refusal) Raw() string {
	var verifier *ebpf.VerifierError
	if errors.As(r.err, &verifier) {
		return fmt.Sprintf("%+v", verifier)
	}
	return r.err.Error()
}

// Operation is an operation that the kernel can refuse.
type Operation int

// The operations.
const (
	LoadProgram Operation = iota
	CreateMap
	AttachSite
)

// notSupported is the kernel's ENOTSUPP, for which package unix has no name.
const notSupported = unix.Errno(524)

const unverified = "the kernel's verifier rejects it: use fewer or simpler expressions; if there are no expressions, report this as a defect, with the output of -v"

// reasons explains errors that have the same cause wherever an operation returns them.
var reasons = [...]map[unix.Errno]string{
	LoadProgram: {
		unix.EACCES: unverified, unix.EINVAL: unverified,
		unix.E2BIG:  "it is too large for this kernel: use fewer or shorter expressions, or a smaller --strlen",
		unix.ENOSPC: "it is too complex for this kernel: use fewer or shorter expressions",
		unix.EFAULT: "the kernel's verifier has failed: use fewer or simpler expressions, or another kernel",
		unix.ENOMEM: "the kernel lacks memory for it: raise the memory limit of the control group, or trace fewer probes",
		unix.EMFILE: console.TooManyFiles, unix.ENFILE: console.TooManyFiles,
	},
	CreateMap: {
		unix.E2BIG:  "it is too large for this kernel: use fewer or shorter expressions, or lower limits",
		unix.EINVAL: "its keys or values are too large for this kernel: use fewer or shorter expressions, or lower limits",
		unix.ENOMEM: "the kernel lacks memory for it: raise the memory limit of the control group, or lower the limits",
		unix.EMFILE: console.TooManyFiles, unix.ENFILE: console.TooManyFiles,
	},
	AttachSite: {
		notSupported: "the kernel does not attach to this instruction",
		unix.EINVAL:  "the kernel rejects the site: another tracer may use it with another semaphore, or the file may have changed",
		unix.EIO:     "the kernel does not attach to files of this file system: copy the program to another one",
		unix.EBUSY:   "the kernel is changing the site: try again",
		unix.E2BIG:   "there are more sites than the kernel attaches to at once: select fewer probes",
		unix.ENOMEM:  "the kernel lacks memory: raise the memory limit of the control group, or trace fewer probes",
		unix.EMFILE:  console.TooManyFiles, unix.ENFILE: console.TooManyFiles,
	},
}

// Refused returns a *Refusal for an error of the kernel. what states the failure, as in "the
// program of begin cannot be loaded". Errors from elsewhere are wrapped.
func Refused(op Operation, what string, err error) error {
	var errno unix.Errno
	var known *Refusal
	unknown := !errors.As(err, &errno) || errors.Is(err, ebpf.ErrNotSupported)
	if unknown || errors.As(err, &known) {
		return fmt.Errorf("%s: %w", what, err)
	}
	reason := reasons[op][errno]
	if reason == "" {
		reason = fmt.Sprintf("the kernel refuses it (%v)", error(errno))
	}
	return &Refusal{what, reason, err}
}
