package calltest

import "encoding/binary"

// Breakpoints are the first bytes that a tracer can leave at a site: int3.
var Breakpoints = []byte{0xcc}

// Frames reports whether Go keeps frame pointers.
const Frames = false

func code(addr uint64) (a asm) {
	a.bytes(0x48) // dec %eax
	for i := range 2 * Arguments {
		a.bytes(0x8b, 0x4c, 0x24, byte(4+4*i)) // mov 4+4i(%esp), %ecx
		a.bytes(0x89, 0x0d)                    // mov %ecx, addr+4i
		a = binary.LittleEndian.AppendUint32(a, uint32(addr)+uint32(4*i))
	}
	a.bytes(0xc3)
	return a
}
