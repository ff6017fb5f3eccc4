package calltest

import "encoding/binary"

// Breakpoints are the first bytes that a tracer can leave at a site: the first byte
// of the kernel's 00 02, and of debuggers' 00 01.
var Breakpoints = []byte{0x00}

// Frames reports whether Go keeps frame pointers.
const Frames = false

func code(addr uint64) (a asm) {
	// long is lg or stg of a register, at an offset from a base register.
	long := func(op, register, base byte, offset int) {
		a.bytes(0xe3, register<<4, base<<4|byte(offset>>8), byte(offset), 0, op)
	}
	const lg, stg = 0x04, 0x24
	a.bytes(0x18, 0x11) // lr %r1, %r1
	a.bytes(0xc0, 0x18) // iihf %r1, the address's upper half
	a = binary.BigEndian.AppendUint32(a, uint32(addr>>32))
	a.bytes(0xc0, 0x19) // iilf %r1, its lower half
	a = binary.BigEndian.AppendUint32(a, uint32(addr))
	for i := range 5 {
		long(stg, byte(2+i), 1, 8*i)
	}
	for i := range 7 {
		long(lg, 0, 15, 160+8*i)
		long(stg, 0, 1, 40+8*i)
	}
	a.bytes(0x07, 0xfe) // br %r14
	return a
}
