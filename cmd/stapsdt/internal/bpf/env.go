//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// Kernel is what the kernel can do.
type Kernel struct {
	// Multi is uprobe_multi, from Linux 6.6.
	Multi bool
	// Sleepable says that programs of uprobes may sleep, from Linux 6.0.
	Sleepable bool
}

// Namespace is the PID namespace of this process, by its file in /proc/self/ns.
type Namespace struct{ Device, Inode uint64 }

// Env is what all programs of a run share.
type Env struct {
	Kernel Kernel
	// Processes has the processes that are meant, or is nil for all.
	Processes *ebpf.Map
	// Roots are those of them that the command line names: to look for these first costs less.
	Roots []int
	// Cgroups has the numbers of the control groups that are meant, or is nil for all.
	Cgroups *ebpf.Map
	// User is the user that is meant, as the initial user namespace numbers it, or nil for all.
	User *uint32
	// Executable is what the names of the executables that are meant match, or nil for all.
	Executable *Pattern
	// Namespace is nil in the initial PID namespace.
	Namespace *Namespace
	// Stats has the counters of record.Stats.
	Stats *ebpf.Map
	// Goroutines has for each process that is a Go program where a g has its goid, as a
	// uint32. It is nil if no program of the run asks for the goroutine.
	Goroutines *ebpf.Map
}

// MapError explains why a map could not be made.
func MapError(err error) error {
	if errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	// Maps have a part for each processor, and only sysfs tells how many there are.
	var missing *fs.PathError
	if errors.As(err, &missing) && errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("%v; mount sysfs at /sys", missing)
	}
	return rights.New("loading BPF maps", err, rights.BPF)
}

// maxCgroups is how many control groups can be meant.
const maxCgroups = 4096

// NewCgroups makes a map for Env.Cgroups.
func NewCgroups() (*ebpf.Map, error) {
	return ebpf.NewMap(&ebpf.MapSpec{Name: "cgroups", Type: ebpf.Hash, KeySize: 8, ValueSize: 1, MaxEntries: maxCgroups})
}

// license allows the helpers that read a program's memory.
const license = "Dual MIT/GPL"

// objectName makes a name of what the kernel allows in one.
func objectName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, name)
}

// Detect finds out what the kernel can do.
func Detect() (k Kernel, err error) {
	if registers == nil {
		return k, fmt.Errorf("probes are traced on amd64 and arm64, and this is %s", runtime.GOARCH)
	}
	// Without CAP_BPF it cannot tell whether there is a limit, and what follows says so.
	if err := rlimit.RemoveMemlock(); err != nil && rights.Has(rights.BPF) {
		return k, rights.New("locking memory", err, rights.Resource)
	}
	if err := features.HaveBPFLinkUprobeMulti(); err == nil {
		return Kernel{Multi: true, Sleepable: true}, nil
	} else if !errors.Is(err, ebpf.ErrNotSupported) {
		return k, rights.New("loading BPF programs", err, rights.BPF, rights.Perfmon)
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

// initialPID is the inode of the initial PID namespace (PROC_PID_INIT_INO).
const initialPID = 0xEFFFFFFC

// CurrentNamespace returns the PID namespace of this process, or nil if it is the initial
// one.
func CurrentNamespace() (*Namespace, error) {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &stat); err != nil {
		return nil, fmt.Errorf("find the PID namespace: %w", err)
	}
	if stat.Ino == initialPID {
		return nil, nil
	}
	return &Namespace{stat.Dev, stat.Ino}, nil
}
