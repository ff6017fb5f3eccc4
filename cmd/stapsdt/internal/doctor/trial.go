//go:build linux

package doctor

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// errNoUprobes means that the kernel has no event source for uprobes.
var errNoUprobes = errors.New("the kernel has no event source for uprobes")

// try attaches to the first selected probe, as a tracer does, and observes its site.
func (f *Facts) try(uses []target.Use) {
	f.Trial.BPF = tryBPF()
	for i, u := range uses {
		for _, p := range u.Probes {
			if n := (Name{p.Provider, p.Name}); f.selects(n) && (f.Spec == nil || f.Spec.File == "" || u.ID == f.Named.ID) {
				f.Trial.Name, f.Trial.Path = n, f.Images[i].Path
				f.Trial.attach(f.PID, u, p)
				return
			}
		}
	}
}

// smallest is a program that does nothing.
var smallest = ebpf.ProgramSpec{
	Type: ebpf.Kprobe, License: "Dual MIT/GPL",
	Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
}

// tryBPF makes a map and loads a program.
func tryBPF() error {
	_ = rlimit.RemoveMemlock() // without it, loading says why
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return err
	}
	defer m.Close()
	prog, err := ebpf.NewProgram(&smallest)
	if err != nil {
		return err
	}
	return prog.Close()
}

// attach opens an event of a site in the process, and looks at the site before and while it
// is open. It changes no other process.
func (t *Trial) attach(pid int, u target.Use, p sdt.Site) {
	memory, err := target.OpenMemory(pid)
	if err == nil {
		defer memory.Close()
		t.Before, t.Known = memory.Traced(u, p)
	}
	event, err := openUprobe(pid, u.AttachPath(), p.Offset)
	if (errors.Is(err, unix.EACCES) || errors.Is(err, errNoUprobes)) && t.BPF == nil {
		// An event takes CAP_SYS_ADMIN, and sysfs. From Linux 6.6 there is a way without.
		if l, multiErr := linkUprobe(pid, u.AttachPath(), p.Offset); multiErr == nil {
			event, err = l, nil
		}
	}
	if t.Perf = err; err != nil {
		return
	}
	defer event.Close()
	if t.Known {
		t.During, t.Known = memory.Traced(u, p)
	}
}

// openUprobe opens an event that counts the passes of a site by the first thread of a
// process.
func openUprobe(pid int, path string, offset uint64) (io.Closer, error) {
	text, err := os.ReadFile("/sys/bus/event_source/devices/uprobe/type")
	if err != nil {
		return nil, errNoUprobes
	}
	kind, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return nil, err
	}
	name := append([]byte(path), 0)
	attr := &unix.PerfEventAttr{
		Type: uint32(kind), Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		// SAFETY: the kernel copies the path, which ends with a NUL, during the call, and
		// name is alive until then.
		Ext1: uint64(uintptr(unsafe.Pointer(&name[0]))), Ext2: offset,
	}
	fd, err := unix.PerfEventOpen(attr, pid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	runtime.KeepAlive(name)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "uprobe"), nil
}

// linkUprobe attaches the smallest program to a site in a process.
func linkUprobe(pid int, path string, offset uint64) (io.Closer, error) {
	spec := smallest
	spec.AttachType = ebpf.AttachTraceUprobeMulti
	prog, err := ebpf.NewProgram(&spec)
	if err != nil {
		return nil, err
	}
	defer prog.Close() // the link keeps it
	executable, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	return executable.UprobeMulti(nil, prog, &link.UprobeMultiOptions{Addresses: []uint64{offset}, PID: uint32(pid)})
}
