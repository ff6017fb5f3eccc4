//go:build linux

package bpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// NewGoroutines creates a map for Env.Goroutines.
func NewGoroutines() (*ebpf.Map, error) {
	return ebpf.NewMap(
		&ebpf.MapSpec{Name: "goroutines", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 16384},
	)
}

// goroutine leaves the goid of the goroutine that fires in R0. A thread that runs C code, even if
// Go called it, is not on the goroutine's stack; for it the code jumps to foreign. A g begins with
// the bounds of its stack (struct g in runtime/runtime2.go: "offset known to runtime/cgo").
func (b *builder) goroutine(foreign string) {
	g, bounds := b.alloc(8), b.alloc(16)
	b.goidOffset(foreign)
	b.add(
		asm.LoadMem(asm.R3, regContext, registers[goroutineRegister], asm.DWord),
		asm.Add.Reg(asm.R1, asm.R3),
		asm.StoreMem(asm.RFP, g, asm.R1, asm.DWord),
	)
	b.stackBounds(bounds, foreign)
	b.add(asm.LoadMem(asm.R3, asm.RFP, g, asm.DWord))
	b.readWord(8, foreign)
	b.add(asm.JEq.Imm(asm.R0, 0, foreign))
}

// goidOffset leaves the offset of goid in R1. A function's file tells it, so that it is known for a
// process from its first instruction on.
func (b *builder) goidOffset(foreign string) {
	if fn := b.probe.Function; fn != nil && fn.Goid != 0 {
		b.add(asm.Mov.Imm(asm.R1, int32(fn.Goid)))
		return
	}
	b.pidTgid()
	b.add(asm.RSh.Imm(asm.R0, 32), asm.StoreMem(asm.RFP, b.word, asm.R0, asm.Word))
	b.lookup(b.env.Goroutines.FD(), b.word)
	b.add(asm.JEq.Imm(asm.R0, 0, foreign), asm.LoadMem(asm.R1, asm.R0, 0, asm.Word))
}

// stackBounds reads the bounds of the stack of the g at the address in R3 to a stack offset. For a
// thread on another stack, it jumps to foreign.
func (b *builder) stackBounds(to int16, foreign string) {
	b.readStack(to, 16, foreign)
	b.add(
		asm.LoadMem(asm.R1, regContext, registers[stackRegister], asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, to, asm.DWord),
		asm.JLT.Reg(asm.R1, asm.R2, foreign),
		asm.LoadMem(asm.R2, asm.RFP, to+8, asm.DWord),
		asm.JGT.Reg(asm.R1, asm.R2, foreign),
	)
}

// call stores the words that identify a call of a Go function at a stack offset: the address of g,
// and the depth of its stack.
func (b *builder) call(to int16, foreign string) {
	bounds := b.alloc(16)
	b.add(
		asm.LoadMem(asm.R3, regContext, registers[goroutineRegister], asm.DWord),
		asm.StoreMem(asm.RFP, to, asm.R3, asm.DWord),
	)
	b.stackBounds(bounds, foreign)
	b.add(asm.Sub.Reg(asm.R2, asm.R1), asm.StoreMem(asm.RFP, to+8, asm.R2, asm.DWord))
}
