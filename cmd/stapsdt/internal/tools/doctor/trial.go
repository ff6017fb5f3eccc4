//go:build linux

package doctor

import (
	"io"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

// try attaches to the first selected probe, and observes its site.
func (f *Facts) try(uses []target.Use) {
	_ = rlimit.RemoveMemlock() // if this fails, load returns the reason
	prog, err := load(ebpf.AttachNone)
	if f.Trial.BPF = err; err == nil {
		defer prog.Close()
	}
	for i, u := range uses {
		for _, p := range u.Probes {
			if n := (Name{p.Provider, p.Name}); f.selects(n) && f.named(u.ID) && !u.Moved {
				f.Trial.Name, f.Trial.Path = n, f.Images[i].Path
				f.run(u, p, prog)
				return
			}
		}
	}
}

// load loads a program that does nothing.
func load(kind ebpf.AttachType) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: kind, License: "Dual MIT/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
}

// run attaches a program, or nil, to a site in the process, and looks at the site before and
// after. It changes no other process.
func (f *Facts) run(u target.Use, p sdt.Site, prog *ebpf.Program) {
	t := &f.Trial
	memory, err := proc.OpenMemory(f.PID)
	if err == nil {
		defer memory.Close()
		t.Before, t.Known = isTraced(memory, u, p)
	}
	if prog == nil {
		return
	}
	attached, err := f.attach(u.AttachPath(), p.Offset, prog)
	if t.Attach = err; err != nil {
		return
	}
	defer attached.Close()
	if t.Known {
		t.During, t.Known = isTraced(memory, u, p)
	}
}

// isTraced reports whether a tracer is attached to a site. known is false if the memory cannot be
// read.
func isTraced(memory *proc.Memory, u target.Use, p sdt.Site) (traced, known bool) {
	traced, known = memory.Traced(u, u.Mappings, []uint64{p.Offset})[p.Offset]
	return traced, known
}

// attach attaches by uprobe_multi, or else by a perf event. It tries no perf event if the kernel
// shows no event source, because package link would create an event in tracefs, which all tracers
// see and which can outlive this process.
func (f *Facts) attach(path string, offset uint64, prog *ebpf.Program) (io.Closer, error) {
	executable, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	task := proc.Task(f.PID)
	multi, err := load(ebpf.AttachTraceUprobeMulti)
	if err == nil {
		defer multi.Close() // the link keeps the program
		var l link.Link
		opts := link.UprobeMultiOptions{Addresses: []uint64{offset}, PID: uint32(task)}
		if l, err = executable.UprobeMulti(nil, multi, &opts); err == nil {
			return l, nil
		}
	}
	if f.Host.Uprobes != UprobesThere {
		return nil, err
	}
	return executable.Uprobe("", prog, &link.UprobeOptions{Address: offset, PID: task})
}
