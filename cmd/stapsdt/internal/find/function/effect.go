//go:build linux

package function

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// effect is what an instruction does to the places of variables.
type effect struct {
	unknown   bool   // it may do anything
	registers uint64 // those that it writes, by DWARF's numbers
	calls     bool   // it writes all registers, unless the function that it calls is known
	callee    uint64 // the function, or 0
	// stack means that it writes to memory at an offset from the stack pointer, or takes the
	// address of it, if size is 0. Otherwise size is the number of bytes.
	stack        bool
	offset, size int64
}

// effect returns what an instruction at an address does.
func (p *Program) effect(code []byte, at uint64) (e effect) {
	if p.file.Machine == elf.EM_AARCH64 {
		e = effectARM64(code)
	} else {
		e = effectX86(code)
	}
	if e.callee != 0 {
		callee := e.callee + at
		if e.registers, e.calls = p.preserves(callee); p.panics(callee) {
			e.registers, e.calls = 0, false // the execution does not go on
		}
	}
	return e
}

// preserves returns the registers that a call of a function writes, or that it writes all.
func (p *Program) preserves(callee uint64) (registers uint64, all bool) {
	a, ok := p.table.At(callee)
	if !ok || a.Entry != callee {
		return 0, true
	}
	switch name := a.Names[len(a.Names)-1]; {
	case strings.HasPrefix(name, "runtime.gcWriteBarrier"):
		return scratch[p.file.Machine].barrier, false
	case name == "runtime.duffzero" || name == "runtime.duffcopy":
		return scratch[p.file.Machine].duff, false
	}
	return 0, true
}

// scratch are the registers that functions write which preserve others: the write barrier, whose
// result is the place in the buffer, and those that clear and copy memory.
var scratch = map[elf.Machine]struct{ barrier, duff uint64 }{
	elf.EM_X86_64:  {1 << 11, 1<<4 | 1<<5},                                         // R11; RSI, RDI
	elf.EM_AARCH64: {1<<25 | 1<<27 | 1<<30, 1<<16 | 1<<17 | 3<<20 | 3<<26 | 1<<30}, // as REGTMP
}

// overwrites reports whether the effect changes one of the pieces of a value of a size. Its offset
// is that from the canonical frame address.
func (e *effect) overwrites(all []piece, size int64) bool {
	for i := range all {
		p := &all[i]
		end := p.offset + cmp.Or(p.size, size)
		switch {
		case e.unknown:
			return true
		case p.register >= 0 && (e.calls || p.register < 64 && e.registers>>p.register&1 != 0):
			return true
		case p.memory && e.stack && e.offset < end && p.offset < e.offset+max(e.size, 1):
			return true
		}
	}
	return false
}

// dwarfX86 are DWARF's numbers of the registers, in the order of the processor.
var dwarfX86 = [...]int{0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15}

// numberX86 returns DWARF's number of the register that has an integer.
func numberX86(r x86asm.Reg) (n int, ok bool) {
	switch {
	case r >= x86asm.RAX && r <= x86asm.R15:
		n = int(r - x86asm.RAX)
	case r >= x86asm.EAX && r <= x86asm.R15L:
		n = int(r - x86asm.EAX)
	case r >= x86asm.AX && r <= x86asm.R15W:
		n = int(r - x86asm.AX)
	case r >= x86asm.AH && r <= x86asm.BH:
		n = int(r - x86asm.AH)
	case r >= x86asm.SPB && r <= x86asm.R15B:
		n = int(r-x86asm.SPB) + 4
	case r >= x86asm.AL && r <= x86asm.BL:
		n = int(r - x86asm.AL)
	case r >= x86asm.X0 && r <= x86asm.X15:
		return int(r-x86asm.X0) + 17, true
	default:
		return 0, false
	}
	return dwarfX86[n], true
}

// readsX86 are the instructions that only read their first operand.
var readsX86 = map[x86asm.Op]bool{
	x86asm.CMP: true, x86asm.TEST: true, x86asm.PUSH: true, x86asm.BT: true, x86asm.NOP: true,
	x86asm.UCOMISD: true, x86asm.UCOMISS: true, x86asm.COMISD: true, x86asm.COMISS: true,
	x86asm.JMP: true, x86asm.CALL: true, x86asm.RET: true, x86asm.UD2: true, x86asm.INT: true,
	x86asm.PREFETCHNTA: true, x86asm.PREFETCHT0: true,
}

// impliedX86 are the registers that instructions write without naming them.
var impliedX86 = map[x86asm.Op][]x86asm.Reg{
	x86asm.MUL: {x86asm.RAX, x86asm.RDX}, x86asm.IMUL: {x86asm.RAX, x86asm.RDX},
	x86asm.DIV: {x86asm.RAX, x86asm.RDX}, x86asm.IDIV: {x86asm.RAX, x86asm.RDX},
	x86asm.CQO: {x86asm.RDX}, x86asm.CDQ: {x86asm.RDX}, x86asm.CWD: {x86asm.RDX},
	x86asm.CDQE: {x86asm.RAX}, x86asm.CWDE: {x86asm.RAX}, x86asm.CBW: {x86asm.RAX},
	x86asm.CMPXCHG: {x86asm.RAX}, x86asm.CMPXCHG16B: {x86asm.RAX, x86asm.RDX},
	x86asm.CPUID: {x86asm.RAX, x86asm.RBX, x86asm.RCX, x86asm.RDX},
	x86asm.RDTSC: {x86asm.RAX, x86asm.RDX}, x86asm.RDTSCP: {x86asm.RAX, x86asm.RCX, x86asm.RDX},
	x86asm.XGETBV: {x86asm.RAX, x86asm.RDX},
	x86asm.MOVSB:  {x86asm.RCX, x86asm.RSI, x86asm.RDI},
	x86asm.MOVSQ:  {x86asm.RCX, x86asm.RSI, x86asm.RDI},
	x86asm.STOSB:  {x86asm.RCX, x86asm.RDI}, x86asm.STOSQ: {x86asm.RCX, x86asm.RDI},
}

// effectX86 returns what an instruction does.
func effectX86(code []byte) (e effect) {
	inst, err := x86asm.Decode(code, 64)
	if err != nil || vexLength(code) > 0 {
		return effect{unknown: true}
	}
	e.calls = inst.Op == x86asm.CALL
	if rel, ok := inst.Args[0].(x86asm.Rel); ok && e.calls {
		e.callee = uint64(int64(inst.Len) + int64(rel))
	}
	write := func(r x86asm.Reg) {
		if n, ok := numberX86(r); ok {
			e.registers |= 1 << n
		}
	}
	for _, r := range impliedX86[inst.Op] {
		write(r)
	}
	operands := inst.Args[:1]
	if inst.Op == x86asm.XCHG || inst.Op == x86asm.XADD {
		operands = inst.Args[:2]
	}
	for _, o := range operands {
		if readsX86[inst.Op] {
			break
		}
		if r, ok := o.(x86asm.Reg); ok {
			write(r)
		}
		if m, ok := o.(x86asm.Mem); ok && m.Base == x86asm.RSP {
			e.stack, e.offset, e.size = true, m.Disp, int64(inst.MemBytes)
			if m.Index != 0 || inst.MemBytes == 0 {
				e.size = maxSize
			}
		}
	}
	if m, ok := inst.Args[1].(x86asm.Mem); ok && inst.Op == x86asm.LEA && m.Base == x86asm.RSP {
		e.stack, e.offset, e.size = true, m.Disp, 0
	}
	return e
}

// effectARM64 is effectX86 for arm64.
func effectARM64(code []byte) (e effect) {
	if len(code) < 4 {
		return effect{unknown: true}
	}
	w := binary.LittleEndian.Uint32(code)
	rd, rn := int(w&31), w>>5&31
	switch {
	case w&0x7c000000 == 0x14000000, w&0xfe000000 == 0xd6000000: // branches
		isDirect := w&0xfc000000 == 0x94000000
		if e.calls = isDirect || w&0xfffffc1f == 0xd63f0000; isDirect {
			e.callee = uint64(4 * int64(int32(w<<6)>>6))
		}
		return e
	case w&0x7c000000 == 0x34000000, w&0xff000000 == 0x54000000, w&0xff000000 == 0xd5000000:
		return e
	case w&0x0a000000 == 0x08000000: // loads and stores
		isPair := w&0x3a000000 == 0x28000000
		isLoad, isVector := w>>22&1 == 1, w>>26&1 == 1
		if !isPair && !isVector && w>>23&1 == 1 {
			isLoad = true
		}
		shift := 0
		if isVector {
			shift = 64
		}
		if isLoad && shift == 0 {
			e.registers |= 1 << rd
			if isPair {
				e.registers |= 1 << (w >> 10 & 31)
			}
		}
		indexed := w>>24&1 == 0 && w>>21&1 == 0 && w>>10&1 == 1
		if isPair && w>>23&1 == 1 || !isPair && indexed { // it writes the base, too
			e.registers |= 1 << rn
		}
		e.registers &^= 1 << 31 // the stack pointer, or none
		if rn == 31 && !isLoad {
			e.stack = true
			e.offset, e.size = storeARM64(w, isPair)
		}
		return e
	}
	if w&0x1f000000 == 0x11000000 && rn == 31 && rd != 31 { // ADD to the stack pointer
		e.stack, e.offset = true, int64(w>>10&0xfff)<<(w>>22&1*12)
	}
	e.registers |= 1 << rd
	return e
}

// storeARM64 returns the offset from the stack pointer to which a store writes, and the number of
// bytes.
func storeARM64(w uint32, isPair bool) (offset, size int64) {
	scale := w >> 30
	if w>>26&1 == 1 {
		scale |= w >> 23 & 1 << 2
	}
	switch {
	case isPair:
		scale = 2 + w>>31
		if w>>26&1 == 1 {
			scale = 2 + w>>30
		}
		return int64(int32(w<<10)>>25) << scale, 2 << scale
	case w>>24&1 == 1:
		return int64(w>>10&0xfff) << scale, 1 << scale
	case w>>21&1 == 0:
		return int64(int32(w<<11) >> 23), 1 << scale
	}
	return 0, 1 << 30 // a register is added
}
