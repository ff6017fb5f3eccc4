//go:build linux

package function

import (
	"errors"

	"golang.org/x/arch/x86/x86asm"
)

// maxPrologue is the maximum number of instructions before the one that follows the stack check.
const maxPrologue = 8

// callX86 returns the offset of the instruction at which a call is seen: the push after the stack
// check, which the kernel emulates, or the entry. At the push the arguments are in the same places
// as at the entry, and a call counts once, because a function whose stack has to grow starts again
// before the push.
func callX86(code []byte) (offset uint64, at Place) {
	for n := 0; n < maxPrologue; n++ {
		inst, err := x86asm.Decode(code[offset:], 64)
		if err != nil || !isStackCheck(&inst) {
			break
		}
		if inst.Op == x86asm.PUSH {
			return offset, AtPush
		}
		if offset += uint64(inst.Len); offset >= uint64(len(code)) {
			break
		}
	}
	return 0, AtEntry
}

// isStackCheck reports whether an instruction belongs to a stack check, which changes only R12 and
// R13, or is the push that follows it.
func isStackCheck(inst *x86asm.Inst) bool {
	switch inst.Op {
	case x86asm.PUSH:
		return inst.Args[0] == x86asm.RBP
	case x86asm.CMP, x86asm.JBE, x86asm.JB:
		return true
	case x86asm.MOV, x86asm.LEA, x86asm.SUB:
		return inst.Args[0] == x86asm.R12 || inst.Args[0] == x86asm.R13
	}
	return false
}

var (
	errNeverReturns = errors.New("it never returns")
	errDecode       = errors.New("its instructions cannot be decoded")
	errTail         = errors.New("it ends with a jump to another function, whose return is not its own")
)

// returnsX86 returns the offsets of the return instructions.
func returnsX86(code []byte) (offsets []uint64, err error) {
	for at := 0; at < len(code); {
		if n := vexLength(code[at:]); n > 0 {
			at += n
			continue
		}
		inst, err := x86asm.Decode(code[at:], 64)
		if err != nil {
			return nil, errDecode
		}
		switch inst.Op {
		case x86asm.RET:
			offsets = append(offsets, uint64(at))
		case x86asm.JMP:
			if rel, ok := inst.Args[0].(x86asm.Rel); ok {
				if to := int64(at+inst.Len) + int64(rel); to < 0 || to >= int64(len(code)) {
					return nil, errTail
				}
			}
		}
		at += inst.Len
	}
	if len(offsets) == 0 {
		return nil, errNeverReturns
	}
	return offsets, nil
}

// vexLength returns the length of an AVX, BMI or AVX-512 instruction, which x86asm does not know,
// or 0 for any other instruction. In 64-bit mode no other instruction begins with these bytes.
func vexLength(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	var at, table int
	switch b[0] {
	case 0xc5:
		at, table = 2, 1
	case 0xc4:
		at, table = 3, int(b[1]&0x1f)
	case 0x62:
		at, table = 4, int(b[1]&0x07)
	default:
		return 0
	}
	if at+1 >= len(b) || table < 1 || table > 7 {
		return 0
	}
	opcode := b[at]
	at++
	if opcode == 0x77 && b[0] != 0x62 && table == 1 { // VZEROUPPER has no operands
		return at
	}
	at = modRM(b, at)
	if at == 0 {
		return 0
	}
	if table == 3 || table == 1 && hasImmediate(opcode) {
		at++
	}
	if at > len(b) {
		return 0
	}
	return at
}

// hasImmediate reports whether an instruction of the first table of VEX has a byte of immediate
// data.
func hasImmediate(opcode byte) bool {
	switch opcode {
	case 0x70, 0x71, 0x72, 0x73, 0xc2, 0xc4, 0xc5, 0xc6:
		return true
	}
	return false
}

// modRM returns the end of the operand that begins with a ModR/M byte at an index, or 0.
func modRM(b []byte, at int) int {
	mod, rm := b[at]>>6, b[at]&7
	at++
	if mod == 3 {
		return at
	}
	base := rm
	if rm == 4 {
		if at >= len(b) {
			return 0
		}
		base = b[at] & 7
		at++
	}
	switch {
	case mod == 1:
		at++
	case mod == 2, base == 5:
		at += 4
	}
	return at
}
