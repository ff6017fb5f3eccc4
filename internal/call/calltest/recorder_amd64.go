package calltest

// Breakpoints are the first bytes that a tracer can leave at a site: int3, and
// the call or the lea that the kernel turns a nop into.
var Breakpoints = []byte{0xcc, 0xe8, 0x48}

// Frames reports whether Go keeps frame pointers.
const Frames = true

func code(addr uint64) (a asm) {
	a.bytes(0x48, 0x90) // rex.w nop
	a.bytes(0x49, 0xbb) // movabs $addr, %r11
	for i := range 8 {
		a.bytes(byte(addr >> (8 * i)))
	}
	for i, modrm := range []byte{0x7b, 0x73, 0x53, 0x4b} { // rdi rsi rdx rcx
		a.bytes(0x49, 0x89, modrm, byte(8*i))
	}
	a.bytes(0x4d, 0x89, 0x43, 32, 0x4d, 0x89, 0x4b, 40) // r8 r9
	for i := range 6 {
		a.bytes(0x4c, 0x8b, 0x54, 0x24, byte(8+8*i)) // mov 8+8i(%rsp), %r10
		a.bytes(0x4d, 0x89, 0x53, byte(48+8*i))      // mov %r10, 48+8i(%r11)
	}
	a.bytes(0x49, 0x89, 0x6b, 96)  // mov %rbp, 96(%r11)
	a.bytes(0x4c, 0x8b, 0x55, 0)   // mov 0(%rbp), %r10
	a.bytes(0x4d, 0x89, 0x53, 104) // mov %r10, 104(%r11)
	a.bytes(0xc3)
	return a
}
