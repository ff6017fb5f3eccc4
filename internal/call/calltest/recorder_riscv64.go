package calltest

import "encoding/binary"

// Breakpoints are the first bytes that a tracer can leave at a site: c.ebreak,
// and ebreak.
var Breakpoints = []byte{0x02, 0x73}

// Frames reports whether Go keeps frame pointers.
const Frames = false

func code(addr uint64) (a asm) {
	const t0, t1, sp, a0 = 5, 6, 2, 10
	const literal = 4 * (1 + 2 + 8 + 8 + 1)
	store := func(register, offset uint32) uint32 { // sd register, offset(t0)
		return offset>>5<<25 | register<<20 | t0<<15 | 3<<12 | offset&31<<7 | 0x23
	}
	a.little(0x00000013)                                      // nop
	a.little(t0<<7 | 0x17)                                    // auipc t0, 0
	a.little((literal-4)<<20 | t0<<15 | 3<<12 | t0<<7 | 0x03) // ld t0, the literal
	for i := range uint32(8) {
		a.little(store(a0+i, 8*i))
	}
	for i := range uint32(4) {
		a.little(8*i<<20 | sp<<15 | 3<<12 | t1<<7 | 0x03) // ld t1, 8i(sp)
		a.little(store(t1, 64+8*i))
	}
	a.little(0x00008067) // ret
	return binary.LittleEndian.AppendUint64(a, addr)
}
