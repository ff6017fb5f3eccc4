//go:build linux

package function

import "encoding/binary"

// Instructions of arm64 as the compiler writes them (cmd/internal/obj/arm64/obj7.go).
const (
	loadGuard = 0xf9400b90 // MOVD 16(R28), R16: the stack guard of g
	retARM64  = 0xd65f03c0 // RET
)

// callARM64 returns the offset of the instruction at which a call is seen: the branch of the stack
// check, because the kernel simulates branches but single-steps all other instructions. If the
// branch is taken, the function starts again after its stack has grown.
func callARM64(code []byte) (offset uint64, at Place) {
	for n := range maxPrologue {
		if 4*n+4 > len(code) {
			break
		}
		word := binary.LittleEndian.Uint32(code[4*n:])
		switch {
		case n == 0 && word != loadGuard:
			return 0, AtEntry
		case n == 0:
		case word&0xff00001f == 0x54000009: // B.LS
			return uint64(4 * n), AtBranch
		case word&0xff00001f == 0x54000003: // B.LO, if the frame is huge
		case !isScratchARM64(word):
			return 0, AtEntry
		}
	}
	return 0, AtEntry
}

// isScratchARM64 reports whether an instruction computes with registers and changes no register
// other than R16, R17 and R27.
func isScratchARM64(word uint32) bool {
	group := word >> 25 & 0xf // the group of the encoding: data processing is 100x and x101
	rd := word & 0x1f
	return (group&0xe == 8 || group&7 == 5) && (rd == 16 || rd == 17 || rd == 27 || rd == 31)
}

// returnsARM64 returns the offsets of the return instructions. It skips constants in the code,
// which the function loads relative to its instructions.
func returnsARM64(code []byte) (offsets []uint64, err error) {
	constants := map[int]bool{}
	words := len(code) / 4
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(code[4*i:]) }
	for i := range words {
		w := word(i)
		switch {
		case w&0x3b000000 == 0x18000000: // LDR (literal)
			to := i + int(int32(w<<8)>>13)
			constants[to], constants[to+1] = true, true
		case w&0xfc000000 == 0x14000000: // B
			if to := i + int(int32(w<<6)>>6); to < 0 || to >= words {
				return nil, errTail
			}
		}
	}
	for i := range words {
		if word(i) == retARM64 && !constants[i] {
			offsets = append(offsets, uint64(4*i))
		}
	}
	if len(offsets) == 0 {
		return nil, errNeverReturns
	}
	return offsets, nil
}
