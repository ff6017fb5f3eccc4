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
	// Spec says which probes are meant, or is nil for all.
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

// Host is the kernel, as far as this process sees it. An empty text is what could not be
// read.
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

// Uprobes is whether the kernel has the event source of uprobes.
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
	// NoProc is whether nothing is mounted at /proc, and OwnProc whether it belongs to the PID
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

// Process is the process that is to be traced.
type Process struct {
	Alive bool
	// Stopped is whether a signal or a debugger has stopped it.
	Stopped bool
	// Refused is why its memory map cannot be read, or nil.
	Refused error
	Name    string
	UIDs    []int // real, effective, saved and of the file system
	// Numbers are its numbers in its PID namespaces, from the one of /proc inwards.
	Numbers    []int
	Namespaces Namespaces
	// HasLibrary is whether its build information has this library.
	HasLibrary bool
	// Parked is whether a provider was loaded and is not any more.
	Parked bool
	// Directory is its STAPSDT_DIR.
	Directory string
	// Children are processes that it has started and that have probes.
	Children []int
	// Siblings are other processes that run the same program.
	Siblings []int
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
	// Deleted says that the kernel shows the file as deleted.
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

// Named is the file that was asked for.
type Named struct {
	ID       target.ID
	Err      error // why it cannot be opened, or that it has no probes
	InRoot   bool  // whether there is one of this path in the root directory of the process
	Owner    int
	HasProbe bool
}

// Trial is the result of attaching to a probe for a moment.
type Trial struct {
	// Name is the probe, or has no Probe if there is none to try.
	Name Name
	Path string
	// BPF is why BPF programs cannot be loaded, and Perf why no event of the site can be
	// opened, or nil.
	BPF, Perf error
	// Before and During are whether the process's site was changed, as a tracer does, before
	// and while the event was open. They are known if Known.
	Before, During, Known bool
}

// meant returns the images that have a probe that is meant.
func (f *Facts) meant() (all []Image) {
	for _, im := range f.Images {
		if slices.ContainsFunc(im.Probes, f.means) && (f.Spec == nil || f.Spec.File == "" || im.ID == f.Named.ID) {
			all = append(all, im)
		}
	}
	return all
}

// means reports whether a name is meant.
func (f *Facts) means(n Name) bool { return f.Spec == nil || f.Spec.Match(n.Provider, n.Probe) }

// looked reports whether the process could be looked at.
func (f *Facts) looked() bool { return f.Process.Alive && f.Process.Refused == nil }
