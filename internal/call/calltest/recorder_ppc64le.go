package calltest

// Breakpoints are the first bytes that a tracer can leave at a site: the first
// byte of the kernel's trap, 7fe00008, and of debuggers' 7d821008.
var Breakpoints = []byte{0x08}

// Frames reports whether Go keeps frame pointers.
const Frames = false

func code(addr uint64) (a asm) {
	part := func(i int) uint32 { return uint32(addr>>(16*i)) & 0xffff }
	a.little(0x7c000378)           // or 0, 0, 0
	a.little(0x3d600000 | part(3)) // lis 11
	a.little(0x616b0000 | part(2)) // ori 11, 11
	a.little(0x796b07c6)           // sldi 11, 11, 32
	a.little(0x656b0000 | part(1)) // oris 11, 11
	a.little(0x616b0000 | part(0)) // ori 11, 11
	for i := range uint32(8) {
		a.little(62<<26 | (3+i)<<21 | 11<<16 | 8*i) // std 3+i, 8i(11)
	}
	for i := range uint32(4) {
		a.little(58<<26 | 12<<21 | 1<<16 | (96 + 8*i))  // ld 12, 96+8i(1)
		a.little(62<<26 | 12<<21 | 11<<16 | (64 + 8*i)) // std 12, 64+8i(11)
	}
	a.little(0x4e800020) // blr
	return a
}
