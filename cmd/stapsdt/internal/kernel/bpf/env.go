//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// Kernel describes the capabilities of the running kernel.
type Kernel struct {
	// Multi reports whether uprobe_multi exists (Linux 6.6) and can be attached to one process.
	Multi bool
	// Sleepable reports whether programs of uprobes may sleep (Linux 6.0).
	Sleepable bool
	Preemption
}

// Env holds what all programs of a run share. A nil field selects everything.
type Env struct {
	Kernel Kernel
	// Processes is the set of selected PIDs, or nil to select all.
	Processes *ebpf.Map
	// Roots are the PIDs on the command line. Programs compare these before they look into
	// Processes, which is faster.
	Roots []int
	// Cgroups is the set of the IDs of selected control groups.
	Cgroups *ebpf.Map
	// Pods maps the IDs of control groups to the names of pods. It is nil if they are not known.
	Pods *PodNames
	// User is the selected UID, as numbered in the initial user namespace.
	User *uint32
	// Executable is matched against the name of the executable.
	Executable *Pattern
	// Namespace is nil in the initial PID namespace.
	Namespace *Namespace
	// Stats is the array of the counters in layout.Stats.
	Stats *ebpf.Map
	// Debug finds files with debug information that was separated from programs.
	Debug *debugfile.Finder
	// Goroutines maps the PID of a Go program to the offset of goid in a g, a uint32. It is nil if
	// no program of the run uses the goroutine.
	Goroutines *ebpf.Map
}

// MapError explains why a map could not be created.
func MapError(err error) error {
	if errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	// Per-CPU maps need the number of processors, which only sysfs has.
	var missing *fs.PathError
	if errors.As(err, &missing) && errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("%v; mount sysfs at /sys", missing)
	}
	if rights.IsRefusal(err) {
		return rights.New("loading BPF maps", err, rights.BPF)
	}
	return Refused(CreateMap, "a BPF map cannot be created", err)
}

// maxCgroups is the capacity of Env.Cgroups.
const maxCgroups = 4096

// NewCgroups creates a map for Env.Cgroups.
func NewCgroups() (*ebpf.Map, error) {
	return ebpf.NewMap(
		&ebpf.MapSpec{Name: "cgroups", Type: ebpf.Hash, KeySize: 8, ValueSize: 1, MaxEntries: maxCgroups},
	)
}

// license permits the helpers that read the memory of a traced program.
const license = "Dual MIT/GPL"

// notInNames matches the characters that the kernel does not permit in an object's name.
var notInNames = lazyregexp.New(`[^A-Za-z0-9_]`)

// Detect detects the capabilities of the kernel, which takes 20 ms, because it loads some programs.
// The error may be a *rights.Error.
func Detect() (k Kernel, err error) {
	if registers == nil {
		return k, fmt.Errorf("probes are traced on amd64 and arm64 only, not on %s", runtime.GOARCH)
	}
	// Without CAP_BPF this cannot find out whether there is a limit; a later error reports
	// it.
	if err := rlimit.RemoveMemlock(); err != nil && rights.Has(rights.BPF) {
		if refused := refusesMaps(); refused != nil {
			return k, refused
		}
		return k, unusable("locking memory", err, rights.Resource)
	}
	exists, ofProcesses, err := detectMulti()
	if err != nil {
		return k, unusable("loading BPF programs", err, rights.BPF, rights.Perfmon)
	}
	if exists {
		return Kernel{Multi: ofProcesses, Sleepable: true, Preemption: detectPreemption()}, nil
	}
	if err := features.HaveMapType(ebpf.RingBuf); err != nil {
		return k, fmt.Errorf("tracing needs Linux 5.8 or later: %w", err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, License: license, Flags: unix.BPF_F_SLEEPABLE,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err == nil {
		k.Sleepable = true
		prog.Close()
	}
	return k, nil
}

// refusesMaps returns an error if the kernel refuses a small map for lack of rights, descriptors or
// memory, which package rlimit takes for a limit of locked memory.
func refusesMaps() error {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err == nil {
		return m.Close()
	}
	if rights.IsRefusal(err) || stall.Short(err) {
		return MapError(err)
	}
	return nil
}

// unusable returns a *rights.Error if rights are missing. Any other failure of these first calls
// wraps ebpf.ErrNotSupported: a sandbox, such as gVisor, answers with errors of its own.
func unusable(op string, err error, needed ...rights.Capability) error {
	if stall.Short(err) {
		return Refused(LoadProgram, op, err)
	}
	var refused *rights.Error
	if err = rights.Wrap(op, err, needed...); !errors.As(err, &refused) &&
		!errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("%w (%w)", err, ebpf.ErrNotSupported)
	}
	return err
}

// Machine describes the kernel, and the PID namespace of this process.
type Machine struct {
	Kernel    Kernel
	Namespace *Namespace
}

// NewMachine detects both. If single is true, programs are attached to each site separately, as
// before Linux 6.6.
func NewMachine(single bool) (m *Machine, err error) {
	m = &Machine{}
	if m.Kernel, err = Detect(); err != nil {
		return nil, err
	}
	m.Kernel.Multi = m.Kernel.Multi && !single
	m.Namespace, err = CurrentNamespace()
	return m, err
}

// Env creates the data that the programs of a run share.
func (m *Machine) Env() (env *Env, err error) {
	env = &Env{Kernel: m.Kernel, Namespace: m.Namespace, Debug: debugfile.New()}
	if env.Stats, err = layout.NewStats(); err != nil {
		return nil, MapError(err)
	}
	return env, nil
}

// detectMulti reports whether there is uprobe_multi, and whether its PIDs are PIDs of processes. In
// Linux 6.6 to 6.6.32 and up to 6.9.3 they were IDs of threads, so that the other threads of a
// process had no events (commit 46ba0e49b642).
func detectMulti() (exists, ofProcesses bool, err error) {
	if err := features.HaveBPFLinkUprobeMulti(); errors.Is(err, ebpf.ErrNotSupported) {
		return false, false, nil
	} else if err != nil {
		return false, false, err
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti, License: license,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return false, false, err
	}
	defer prog.Close()
	self, err := link.OpenExecutable("/proc/self/exe")
	if err != nil {
		return false, false, err
	}
	_, err = self.UprobeMulti(
		nil, prog, &link.UprobeMultiOptions{Addresses: []uint64{1}, PID: math.MaxUint32},
	)
	return true, refusesPID(err), nil
}

// refusesPID reports whether an error for the PID -1 comes from a kernel that looks for a process.
// Other kernels looked for a thread, and found none.
func refusesPID(err error) bool { return errors.Is(err, unix.EINVAL) }
