//go:build linux

package function

import (
	"encoding/binary"
	"errors"
)

// errRefused means that the kernel attaches to no such instruction.
var errRefused = errors.New("the kernel does not trace the instruction with which the statement begins: it has a lock, an exclusive access or a segment")

// isEmulatedX86 reports whether the kernel emulates an instruction, as it does with pushes, jumps,
// calls and nops (arch/x86/kernel/uprobes.c), or returns errRefused.
func isEmulatedX86(code []byte, at uint64) (emulated bool, err error) {
	b := code[at:]
	for len(b) > 1 {
		switch b[0] {
		case 0x26, 0x2e, 0x36, 0x3e, 0xf0: // segments, lock
			return false, errRefused
		case 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3:
			b = b[1:]
			continue
		}
		break
	}
	if len(b) > 1 && b[0]&0xf0 == 0x40 { // REX
		b = b[1:]
	}
	switch op := b[0]; {
	case op >= 0x50 && op <= 0x57, op >= 0x70 && op <= 0x7f, // push, jumps
		op == 0x90, op == 0xe8, op == 0xe9, op == 0xeb:
		return true, nil
	case op == 0x0f && len(b) > 1:
		return b[1] == 0x1f || b[1]&0xf0 == 0x80, nil
	}
	return false, nil
}

// maxExclusive is the maximum number of instructions between those of an exclusive access.
const maxExclusive = 16

// isEmulatedARM64 is isEmulatedX86 for arm64 (arch/arm64/kernel/probes/decode-insn.c). A stop
// between a load and a store that are exclusive would repeat them for ever.
func isEmulatedARM64(code []byte, at uint64) (emulated bool, err error) {
	word := func(at uint64) uint32 { return binary.LittleEndian.Uint32(code[at:]) }
	isExclusive := func(w uint32) bool { return w&0x3f800000 == 0x08000000 }
	if at+4 > uint64(len(code)) || isExclusive(word(at)) {
		return false, errRefused
	}
	for n := uint64(1); n <= maxExclusive && 4*n <= at; n++ {
		if w := word(at - 4*n); isExclusive(w) {
			if w&(1<<22) != 0 { // it is the load
				return false, errRefused
			}
			break
		}
	}
	w := word(at)
	isBranch := w&0x7c000000 == 0x14000000 || w&0xff000000 == 0x54000000 ||
		w&0x7c000000 == 0x34000000
	return isBranch || w&0xfffff01f == 0xd503201f, nil
}
