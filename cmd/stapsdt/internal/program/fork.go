//go:build linux

package program

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// FollowForks adds what the processes in a set fork to the set, until the link is closed.
// New threads of the processes are added too. It needs tracefs.
func FollowForks(processes *ebpf.Map) (*ebpf.Program, link.Link, error) {
	child, err := childOffset()
	if err != nil {
		return nil, nil, err
	}
	b := newBuilder(&Env{Processes: processes}, nil)
	b.begin() // it runs in the parent
	b.add(
		asm.LoadMem(asm.R0, regContext, child, asm.Word),
		asm.StoreMem(asm.RFP, b.word, asm.R0, asm.Word),
	)
	value := b.alloc(8)
	b.add(
		asm.Mov.Imm(asm.R5, 1), asm.StoreMem(asm.RFP, value, asm.R5, asm.DWord),
		asm.LoadMapPtr(asm.R1, processes.FD()),
	)
	b.stack(asm.R2, b.word)
	b.stack(asm.R3, value)
	b.add(asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call())
	b.label("exit")
	b.add(asm.Mov.Imm(asm.R0, 0), asm.Return())
	ins, err := b.finish()
	if err != nil {
		return nil, nil, err
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "forks", Type: ebpf.TracePoint, Instructions: ins, License: license})
	if err != nil {
		return nil, nil, err
	}
	l, err := link.Tracepoint("sched", "sched_process_fork", prog, nil)
	if err != nil {
		return nil, nil, errors.Join(err, prog.Close())
	}
	return prog, l, nil
}
