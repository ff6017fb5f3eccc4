//go:build linux

package doctor

import (
	"debug/elf"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
)

// Facts are the input of the checks.
type Facts struct {
	// PIDs are the processes that were asked for, and PID is the first.
	PIDs []int
	PID  int
	// Spec selects the probes in question, or is nil for all.
	Spec *target.Spec

	Host    Host
	Self    Self
	Process Process
	Images  []Image
	// Closed is the first file of the process that could not be opened, or nil.
	Closed error
	// Named is the file that Spec names.
	Named Named
	Trial Trial
}

// Host is the kernel, as far as this process sees it. A string is empty if it could not be read.
type Host struct {
	Release  string // "6.18.44"
	Machine  elf.Machine
	Class    elf.Class
	Uprobes  Uprobes
	Tracefs  string // where it is mounted
	Mounts   bool   // whether the mounts could be read
	Lockdown string // the mode: "none", "integrity" or "confidentiality"
	Paranoid string
}

// Uprobes tells whether the kernel has the event source of uprobes.
type Uprobes int

const (
	UprobesUnknown Uprobes = iota // sysfs is not mounted
	UprobesMissing
	UprobesThere
)

// Self is this process, which stands for a tracer that is started in the same way.
type Self struct {
	UID          int
	Capabilities uint64
	Seccomp      bool // whether there is a filter
	Namespaces   Namespaces
	// NoProc tells whether nothing is mounted at /proc, and OwnProc whether it belongs to the PID
	// namespace of this process.
	NoProc, OwnProc bool
}

// Namespaces are the names of namespaces, such as "pid:[4026531836]". They are empty if they
// may not be read.
type Namespaces struct{ PID, Mount, User string }

// The initial namespaces, whose numbers are part of the kernel's interface.
const (
	initialPID  = "pid:[4026531836]"
	initialUser = "user:[4026531837]"
)

// Process is the process to trace.
type Process struct {
	Alive bool
	// Stopped tells whether a signal or a debugger has stopped it.
	Stopped bool
	// Refused is the error from reading its memory map, or nil.
	Refused error
	Name    string
	UIDs    []int // real, effective, saved and of the file system
	// Numbers are its PIDs in its PID namespaces, from that of /proc inwards.
	Numbers    []int
	Namespaces Namespaces
	// HasLibrary tells whether its build information has this library.
	HasLibrary bool
	// Parked tells whether a provider was loaded and no longer is.
	Parked bool
	// Directory is its STAPSDT_DIR.
	Directory string
	// Children are processes that it has started and that have probes.
	Children []int
	// Siblings are other processes that run the same program.
	Siblings []int
	// Socket is what connecting to its socket has led to: nil if it can be watched without the kernel. It is
	// socket.ErrNone if it does not listen.
	Socket error
	// Emulated is the machine of files with probes that it has mapped but cannot execute
	// itself, or EM_NONE.
	Emulated elf.Machine
}

// Image is a file with probes that the process has mapped.
type Image struct {
	Path     string // in the mount namespace of the process
	Mapping  string // the first executable one, as in /proc/PID/map_files
	ID       target.ID
	InMemory bool
	// Deleted tells whether the kernel shows the file as deleted.
	Deleted bool
	// Descriptor is the process's descriptor of an image in memory, or -1.
	Descriptor int
	Machine    elf.Machine
	Class      elf.Class
	Probes     []Name // without duplicates
	// InRoot is what the path leads to in the root directory of the process, and Here what it
	// leads to for this process.
	InRoot, Here Leads
}

// Name is the name of a probe.
type Name struct{ Provider, Probe string }

func (n Name) String() string { return n.Provider + ":" + n.Probe }

// Leads is what a path leads to.
type Leads int

const (
	LeadsNowhere Leads = iota
	LeadsElsewhere
	LeadsToImage
	LeadsUnknown // it may not be followed
)

// Named is the file that the user named.
type Named struct {
	ID       target.ID
	Err      error // from opening it, or because it has no probes
	InRoot   bool  // whether there is one of this path in the root directory of the process
	Owner    int
	HasProbe bool
}

// Trial is the result of attaching to a probe for a moment.
type Trial struct {
	// Name is the probe, or has no Probe if there is none to try.
	Name Name
	Path string
	// BPF and Perf are the errors from loading a BPF program and from opening an event of the
	// site, or nil.
	BPF, Perf error
	// Before and During tell whether the process's site was changed, as a tracer changes it,
	// before and while the event was open. They are valid if Known is true.
	Before, During, Known bool
}

// selected returns the images that have a selected probe.
func (f *Facts) selected() (all []Image) {
	for _, im := range f.Images {
		if slices.ContainsFunc(im.Probes, f.selects) && (f.Spec == nil || f.Spec.File == "" || im.ID == f.Named.ID) {
			all = append(all, im)
		}
	}
	return all
}

// selects reports whether a probe is selected.
func (f *Facts) selects(n Name) bool { return f.Spec == nil || f.Spec.Match(n.Provider, n.Probe) }

// looked reports whether the process could be looked at.
func (f *Facts) looked() bool { return f.Process.Alive && f.Process.Refused == nil }
