//go:build linux

package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
)

// Preemption holds the kernel functions that disable and enable preemption of a program (Linux
// 6.10). They are 0 if the kernel has none.
type Preemption struct{ Disable, Enable btf.TypeID }

// ownStack is the largest frame of a program that is always on its thread's stack. From Linux 6.13
// on, a larger frame is in memory of the processor, which programs of other threads use too.
const ownStack = 48

// sharedStacks is the first version of Linux in which large frames share memory.
const sharedStacks = 6<<16 | 13<<8

// detectPreemption returns the functions of the running kernel.
func detectPreemption() (p Preemption) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return p
	}
	for name, id := range map[string]*btf.TypeID{"bpf_preempt_disable": &p.Disable, "bpf_preempt_enable": &p.Enable} {
		var f *btf.Func
		if kernel.TypeByName(name, &f) != nil {
			return Preemption{}
		}
		if *id, err = kernel.TypeID(f); err != nil {
			return Preemption{}
		}
	}
	return p
}

// call returns the instructions that call one of the functions, or none if the kernel lacks it.
func (p Preemption) call(id btf.TypeID) asm.Instructions {
	if id == 0 {
		return nil
	}
	return asm.Instructions{
		{
			OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall,
			Constant: int64(id),
		},
	}
}

// alone disables preemption for a program that ends with its only return.
func (p Preemption) alone(ins asm.Instructions) asm.Instructions {
	last := len(ins) - 1
	all := asm.Instructions{asm.Mov.Reg(regContext, asm.R1)}
	all = append(all, p.call(p.Disable)...)
	all = append(all, asm.Mov.Reg(asm.R1, regContext))
	all = append(all, ins[:last-1]...)
	end := p.call(p.Enable)
	end[0] = end[0].WithSymbol(ins[last-1].Symbol())
	all = append(all, end...)
	return append(all, ins[last-1].WithSymbol(""), ins[last])
}

// frame returns the size of the stack that the instructions use.
func frame(ins asm.Instructions) (size int) {
	for i, in := range ins {
		switch {
		case isAddress(in) && i+1 < len(ins) && ins[i+1].Dst == in.Dst:
			size = max(size, int(-ins[i+1].Constant))
		case usesStack(in):
			size = max(size, int(-in.Offset))
		}
	}
	return size
}

// isAddress reports whether an instruction takes the address of the stack.
func isAddress(in asm.Instruction) bool {
	return in.OpCode.Class().IsALU() && in.OpCode.ALUOp() == asm.Mov &&
		in.OpCode.Source() == asm.RegSource &&
		in.Src == asm.RFP
}

// usesStack reports whether an instruction loads from the stack or stores to it.
func usesStack(in asm.Instruction) bool {
	return in.OpCode.Class().IsLoad() && in.OpCode.Mode() == asm.MemMode && in.Src == asm.RFP ||
		in.OpCode.Class().IsStore() && in.Dst == asm.RFP
}

// load loads a program, unless another thread could write to its stack. It loads every program of
// this package.
func (p Preemption) load(spec *ebpf.ProgramSpec) (*ebpf.Program, error) {
	if err := p.check(spec.Instructions); err != nil {
		return nil, err
	}
	prog, err := ebpf.NewProgram(spec)
	if err != nil && isLockedDown() {
		return loadLockedDown(spec)
	}
	return prog, err
}

// check returns an error if a program could read data from its stack that another thread has
// written. A program with a large frame may use the stack only while it cannot be preempted.
// Elsewhere it may only pass the stack to bpf_copy_from_user, for bytes that it ignores.
func (p Preemption) check(ins asm.Instructions) error {
	if frame(ins) <= ownStack {
		return nil
	}
	if p == (Preemption{}) {
		if version, err := features.LinuxVersionCode(); err != nil || version < sharedStacks {
			return nil
		}
		return errors.New("from Linux 6.13 on, this needs a kernel that describes its types (CONFIG_DEBUG_INFO_BTF)")
	}
	const preemptible, alone = firstState, firstState + 1
	return walk(ins, func(i, state int) (after int, err error) {
		in := ins[i]
		isKfunc := in.IsKfuncCall()
		switch {
		case state == preemptible && usesStack(in):
			return 0, fmt.Errorf("instruction %d uses the stack where another thread may: %v", i, in)
		case state == preemptible && in.OpCode.JumpOp() == asm.Call &&
			in.OpCode.Class() == asm.JumpClass && !isKfunc &&
			in.Constant != int64(asm.FnCopyFromUser):
			return 0, fmt.Errorf("instruction %d may use the stack where another thread does: %v", i, in)
		case isKfunc && in.Constant == int64(p.Disable):
			return alone, nil
		case isKfunc && in.Constant == int64(p.Enable):
			return preemptible, nil
		}
		return state, nil
	})
}
