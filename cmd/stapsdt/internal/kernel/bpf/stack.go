//go:build linux

package bpf

import (
	"errors"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// entryStacks is the first version of Linux that finds the caller of a function at its first push.
const entryStacks = 6<<16 | 12<<8

// StackErr returns the reason that the kernel cannot walk the stack of a probe, or nil. At the
// entry of a function its frame does not exist, and the stack would lack the caller.
func (p *Probe) StackErr() error {
	switch {
	case p.Function == nil, p.Started != nil && p.Started.Plan.stacks != nil:
		return nil
	case p.Function.Framed:
		return nil
	case !p.Function.Push:
		return errors.New("only calls that are seen at the push after the stack check have whole stacks, because its frame exists nowhere else: see stapsdt list -v")
	}
	if version, err := features.LinuxVersionCode(); err != nil || version < entryStacks {
		return errors.New("stacks of functions need Linux 6.12: before, the kernel leaves out the caller")
	}
	return nil
}

// awake returns the environment for a program that must not sleep because it uses a stack map.
func (e *Env) awake() *Env {
	env := *e
	env.Kernel.Sleepable = false
	return &env
}

// stackFor is stackOf, but for the return of a function it stores the stack of the call.
func (b *builder) stackFor(s *layout.StackTable, key int16, full string) {
	if b.starting != nil && b.starting.Plan.stacks != nil {
		b.copy(asm.RFP, key, asm.RFP, b.starting.stack, layout.StackKey)
		return
	}
	b.stackOf(s, key, full)
}

// stackOf stores the process and its stack in a key. It jumps to full if the table has no room.
func (b *builder) stackOf(s *layout.StackTable, key int16, full string) {
	b.pidTgid()
	b.add(asm.RSh.Imm(asm.R0, 32), asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord))
	const userStack = 1 << 8 // BPF_F_USER_STACK
	done, none := b.fresh("stack"), b.fresh("nostack")
	for i, m := range s.Maps {
		next := b.fresh("stackmap")
		b.add(
			asm.Mov.Reg(asm.R1, regContext),
			asm.LoadMapPtr(asm.R2, m.FD()),
			asm.Mov.Imm(asm.R3, userStack),
			asm.FnGetStackid.Call(),
			asm.JSLT.Imm(asm.R0, 0, next),
		)
		b.constant(asm.R1, int64(i)<<32)
		b.add(asm.Or.Reg(asm.R0, asm.R1))
		b.jump(done)
		b.label(next)
		b.add(asm.JNE.Imm(asm.R0, -int32(unix.EEXIST), none))
	}
	b.jump(full)
	b.label(none)
	b.add(asm.Mov.Imm(asm.R0, int32(layout.NoStack)))
	b.label(done)
	b.add(asm.StoreMem(asm.RFP, key+8, asm.R0, asm.DWord))
}
