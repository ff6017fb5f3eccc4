//go:build arm || arm64 || ppc64le || riscv64

package calltest

import "encoding/binary"

func (a *asm) little(words ...uint32) {
	for _, w := range words {
		*a = binary.LittleEndian.AppendUint32(*a, w)
	}
}
