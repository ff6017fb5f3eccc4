//go:build linux

package bpf

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// FollowSignals records in a map the PID of each process that one of the given signals ends, with
// the signal, until the link is closed. It covers the processes of a set, or all if the set is nil.
// If a process handles or ignores a signal, it is not ended. The program runs at each signal on the
// machine. It needs a kernel that is not locked down.
func FollowSignals(
	into, processes *ebpf.Map, ns *Namespace, signals []unix.Signal,
) (*ebpf.Program, link.Link, error) {
	if isLockedDown() {
		return nil, nil, ErrLockdown
	}
	b := newBuilder(&Env{Processes: processes, Namespace: ns}, nil)
	number, handler := b.alloc(8), b.alloc(8)
	b.followed(number, handler, signals)
	b.begin()
	b.pidTgid()
	b.add(
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, b.word, asm.R0, asm.Word),
	)
	b.update(into, b.word, number, ebpf.UpdateAny)
	return b.start("signals", ebpf.RawTracepoint, rawTracepoint("signal_deliver"))
}

// followed exits unless one of the signals is being delivered and the process has no handler for
// it. It leaves the signal's number on the stack, and R1 as it was.
func (b *builder) followed(number, handler int16, signals []unix.Signal) {
	// The arguments are those of trace_signal_deliver (include/trace/events/signal.h): the signal's
	// number, a siginfo, and a k_sigaction, which begins with the handler. SIG_DFL is 0.
	const argSignal, argAction = 0, 16
	one := b.fresh("signal")
	b.add(
		asm.Mov.Reg(regContext, asm.R1),
		asm.LoadMem(asm.R0, regContext, argSignal, asm.DWord),
	)
	for _, s := range signals {
		b.add(asm.JEq.Imm(asm.R0, int32(s), one))
	}
	b.jump(labelExit)
	b.label(one)
	b.add(asm.StoreMem(asm.RFP, number, asm.R0, asm.DWord))
	b.stack(asm.R1, handler)
	b.add(
		asm.Mov.Imm(asm.R2, 8),
		asm.LoadMem(asm.R3, regContext, argAction, asm.DWord),
		asm.FnProbeReadKernel.Call(),
		asm.JNE.Imm(asm.R0, 0, labelExit),
		asm.LoadMem(asm.R0, asm.RFP, handler, asm.DWord),
		asm.JNE.Imm(asm.R0, 0, labelExit),
		asm.Mov.Reg(asm.R1, regContext),
	)
}

// rawTracepoint returns the function that attaches a program to a raw tracepoint.
func rawTracepoint(name string) func(*ebpf.Program) (link.Link, error) {
	return func(prog *ebpf.Program) (link.Link, error) {
		return link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: prog})
	}
}

// start ends a program of a tracepoint, loads it and attaches it.
func (b *builder) start(
	name string, kind ebpf.ProgramType, attach func(*ebpf.Program) (link.Link, error),
) (*ebpf.Program, link.Link, error) {
	b.leaveProgram()
	ins, err := b.finish()
	if err != nil {
		return nil, nil, err
	}
	spec := &ebpf.ProgramSpec{Name: name, Type: kind, Instructions: ins, License: license}
	prog, err := Preemption{}.load(spec)
	if err != nil {
		return nil, nil, refusedTracepoint(LoadProgram, "loading BPF programs", err)
	}
	l, err := attach(prog)
	if err != nil {
		_ = prog.Close()
		return nil, nil, refusedTracepoint(AttachSite, "attaching to a tracepoint", err)
	}
	return prog, l, nil
}

// refusedTracepoint is Refused, or a *rights.Error if rights are missing.
func refusedTracepoint(op Operation, what string, err error) error {
	if rights.IsRefusal(err) {
		return rights.New(what, err, rights.BPF, rights.Perfmon)
	}
	return Refused(op, what, err)
}
