package calltest

// Breakpoints are the first bytes that a tracer can leave at a site: the
// kernel's e7f001f9, and debuggers' e7f001f0 and e7ffdefe.
var Breakpoints = []byte{0xf9, 0xf0, 0xfe}

// Frames reports whether Go keeps frame pointers.
const Frames = false

func code(addr uint64) (a asm) {
	const words = 2 * Arguments
	a.little(0xe31000f0) // tst r0, #0xf0
	// The program counter reads as two instructions ahead.
	a.little(0xe59f1000 | 4*(2*words)) // ldr r1, the literal
	for i := range uint32(words) {
		a.little(0xe59d2000 | 4*i) // ldr r2, [sp, #4i]
		a.little(0xe5812000 | 4*i) // str r2, [r1, #4i]
	}
	a.little(0xe12fff1e) // bx lr
	a.little(uint32(addr))
	return a
}
