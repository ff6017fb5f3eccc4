package calltest

// Breakpoints are the first bytes that a tracer can leave at a site: the
// kernel's brk #5, and debuggers' brk #0.
var Breakpoints = []byte{0xa0, 0x00}

// Frames reports whether Go keeps frame pointers.
const Frames = true

func code(addr uint64) (a asm) {
	a.little(0xaa000000) // orr x0, x0, x0
	for i := range uint32(4) {
		op := uint32(0xf2800000) // movk
		if i == 0 {
			op = 0xd2800000 // movz
		}
		a.little(op | i<<21 | uint32(addr>>(16*i)&0xffff)<<5 | 10) // x10
	}
	for i := range uint32(8) {
		a.little(0xf9000000 | i<<10 | 10<<5 | i) // str xi, [x10, 8i]
	}
	for i := range uint32(4) {
		a.little(0xf9400000 | i<<10 | 31<<5 | 11)     // ldr x11, [sp, 8i]
		a.little(0xf9000000 | (8+i)<<10 | 10<<5 | 11) // str x11, [x10, 64+8i]
	}
	a.little(0xf9000000 | 12<<10 | 10<<5 | 29) // str x29, [x10, 96]
	a.little(0xf9400000 | 29<<5 | 11)          // ldr x11, [x29]
	a.little(0xf9000000 | 13<<10 | 10<<5 | 11) // str x11, [x10, 104]
	a.little(0xd65f03c0)                       // ret
	return a
}
