//go:build linux

// Package doctor finds out why stapsdt sees no event of a process. [Read] collects the facts about
// the kernel, the rights of this process, the process to trace and its images. [Diagnose] runs a
// table of checks on the facts and touches nothing else, so that tests can give it the facts of
// other systems. docs/nothing-shows.md also describes causes that concern only other tracers.
package doctor

import (
	"debug/elf"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
)

// Facts are the input of the checks.
type Facts struct {
	PID int
	// Spec selects the probes in question, or is nil for all.
	Spec *spec.Spec

	Host    Host
	Self    Self
	Process Process
	Images  []Image
	// Closed is the error from the first file of the process that could not be opened, or nil.
	Closed error
	// LeftOut are the reasons why files of the process were not opened, such as those on FUSE.
	LeftOut []error
	// Named is the file that Spec names.
	Named Named
	Trial Trial
}

// Host is the kernel, as far as this process sees it.
type Host struct {
	Release  string // "6.18.44"
	Machine  elf.Machine
	Uprobes  Uprobes
	Lockdown string // "none", "integrity" or "confidentiality", or "" if unknown
}

// Uprobes reports whether the kernel has the event source of uprobes.
type Uprobes int

const (
	UprobesUnknown Uprobes = iota // sysfs is not mounted
	UprobesMissing
	UprobesThere
)

// Self is this process.
type Self struct {
	UID int
	// Missing are the capabilities that attaching may need and that this process lacks.
	Missing []rights.Capability
	Seccomp bool // whether there is a filter
	// InPIDNamespace and InUserNamespace report whether it is outside the initial
	// namespace.
	InPIDNamespace, InUserNamespace bool
	// NoProc reports whether nothing is mounted at /proc, and OwnProc whether /proc belongs to
	// the PID namespace of this process.
	NoProc, OwnProc bool
}

// Process is the process to trace.
type Process struct {
	Alive bool
	// Stopped reports whether a signal or a debugger has stopped it.
	Stopped bool
	// Refused is the error from reading its memory map, or nil.
	Refused error
	Name    string
	UID     int // the effective user, or -1
	// Go reports whether it runs a Go program.
	Go bool
	// HasLibrary reports whether its build information lists this library.
	HasLibrary bool
	// Parked reports whether a provider was loaded and no longer is.
	Parked bool
	// Directory is its STAPSDT_DIR.
	Directory string
	// Asked reports whether its environment requests a socket. Invalid has an error for each
	// variable whose value the library refuses.
	Asked   bool
	Invalid []error
	// Children are its descendants that have probes, if it has none.
	Children []int
	// Siblings are other processes that run the same program.
	Siblings []int
	// Socket is the error from connecting to its socket: nil if it can be watched without the
	// kernel, and socket.ErrNone if it does not listen.
	Socket error
	// Deleted are its recordings whose files were deleted.
	Deleted []recordings.Recording
	// Foreign is the machine of probes that the kernel's machine cannot execute, or EM_NONE.
	Foreign elf.Machine
}

// Image is a file with probes that the process has mapped.
type Image struct {
	Path   string // the path in the mount namespace of the process
	ID     target.ID
	Probes []Name
	// Twice reports whether the process has mapped the semaphore of a selected probe
	// twice.
	Twice bool
	// Deleted reports whether the path leads to the file no longer.
	Deleted bool
	// Moved reports whether the process has moved the code of a probe to memory that has no
	// file.
	Moved bool
}

// Name is the name of a probe.
type Name struct{ Provider, Probe string }

func (n Name) String() string { return n.Provider + ":" + n.Probe }

// Named is the file that the user named.
type Named struct {
	ID       target.ID
	Err      error // the error from opening the file, or sdt.ErrNoProbes
	InRoot   bool  // whether the root directory of the process has this path
	HasProbe bool
}

// Trial is the result of attaching to a probe for a moment.
type Trial struct {
	// Name is the probe, or has no Probe if there is none to try.
	Name Name
	Path string
	// BPF and Attach are the errors from loading a BPF program and from attaching it, or nil.
	BPF, Attach error
	// Before and During report whether the process's site was changed, as a tracer changes
	// it, before and during the trial. They are valid if Known is true.
	Before, During, Known bool
}

func (f *Facts) selects(n Name) bool { return f.Spec == nil || f.Spec.Match(n.Provider, n.Probe) }

// named reports whether the spec names no file, or this one.
func (f *Facts) named(id target.ID) bool {
	return f.Spec == nil || f.Spec.File == "" || id == f.Named.ID
}

// likely returns the first image with a selected probe, even if the spec names another file, or
// nil.
func (f *Facts) likely() *Image {
	i := slices.IndexFunc(
		f.Images, func(im Image) bool { return slices.ContainsFunc(im.Probes, f.selects) },
	)
	if i < 0 {
		return nil
	}
	return &f.Images[i]
}

func (f *Facts) readable() bool { return f.Process.Alive && f.Process.Refused == nil }
