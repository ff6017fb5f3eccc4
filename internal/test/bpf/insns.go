//go:build linux && (amd64 || arm64)

package bpf

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Registers by what they hold in every program here: those that calls leave alone.
const (
	regContext = asm.R6 // struct pt_regs
	regA       = asm.R7
	regB       = asm.R8
	regC       = asm.R9
)

// The stack of a program, below the frame pointer.
const (
	stackKey  = -8  // of a map
	stackWord = -16 // that was read from the traced program
	stackFail = -24 // how many reads failed
)

// ptRegs are the words of struct pt_regs, which a program is given: registers by their 64-bit names in notes, and "" for what is no
// operand. They follow arch/x86/include/asm/ptrace.h and arch/arm64/include/asm/ptrace.h.
var ptRegs, stackPointer = func() (names []string, sp string) {
	if runtime.GOARCH == "amd64" {
		return []string{"%r15", "%r14", "%r13", "%r12", "%rbp", "%rbx", "%r11", "%r10", "%r9", "%r8", "%rax", "%rcx", "%rdx",
			"%rsi", "%rdi", "", "", "", "", "%rsp", ""}, "%rsp"
	}
	for i := range 31 {
		names = append(names, fmt.Sprint("x", i))
	}
	return append(names, "sp", "", ""), "sp"
}()

// lookup leaves a map's value of the key at stackKey in R0, which is 0 when there is none.
func lookup(m *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackKey),
		asm.FnMapLookupElem.Call(),
	}
}

// reserve leaves a new record of a ring in R0, or 0 when it is full.
func reserve(ring *ebpf.Map, size int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, ring.FD()),
		asm.Mov.Imm(asm.R2, int32(size)),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
	}
}

// submit gives a record to the reader.
func submit(record asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, record),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRingbufSubmit.Call(),
	}
}

// loadRegister loads a register of the traced program.
func loadRegister(to asm.Register, name string) (asm.Instruction, error) {
	at := slices.Index(ptRegs, name)
	if at < 0 || name == "" {
		return asm.Instruction{}, fmt.Errorf("there is no register %q", name)
	}
	return asm.LoadMem(to, regContext, int16(8*at), asm.DWord), nil
}

// readWord reads 8 bytes of the traced program at the address in R3, into a register that calls leave alone. A read that
// fails is counted at stackFail.
func readWord(to asm.Register) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, stackWord),
		asm.Mov.Imm(asm.R2, 8),
		asm.FnCopyFromUser.Call(),
		asm.LoadMem(asm.R1, asm.RFP, stackFail, asm.DWord),
		asm.Sub.Reg(asm.R1, asm.R0), // an error is negative
		asm.StoreMem(asm.RFP, stackFail, asm.R1, asm.DWord),
		asm.LoadMem(to, asm.RFP, stackWord, asm.DWord),
	}
}

// loadArg loads an argument as its note describes it, extended to 64 bits, into a register that calls leave alone.
func loadArg(to asm.Register, arg sdt.Arg) (asm.Instructions, error) {
	o := arg.Operand
	var insns asm.Instructions
	switch {
	case arg.Err != nil:
		return nil, arg.Err
	case o.Kind == sdt.OperandMemory && o.Symbol == "" && o.Index.Name == "":
		base, err := loadRegister(asm.R3, o.Base.Full)
		if err != nil {
			return nil, err
		}
		insns = append(asm.Instructions{base, asm.Add.Imm(asm.R3, int32(o.Displacement))}, readWord(to)...)
	case o.Kind == sdt.OperandConstant && o.Symbol == "":
		insns = asm.Instructions{asm.LoadImm(to, o.Displacement, asm.DWord)}
	case o.Kind == sdt.OperandRegister && o.Base.Shift == 0:
		load, err := loadRegister(to, o.Base.Full)
		if err != nil {
			return nil, err
		}
		insns = asm.Instructions{load}
	default:
		return nil, fmt.Errorf("%v is neither a constant, a register nor memory at one", arg)
	}
	extend := asm.RSh
	if arg.Signed {
		extend = asm.ArSh
	}
	if shift := int32(64 - 8*arg.Size); shift > 0 {
		insns = append(insns, asm.LSh.Imm(to, shift), extend.Imm(to, shift))
	}
	return insns, nil
}
