package call

// Idle is the first byte of the nop, for probes that have no site.
const Idle = 0x1f

// A site is patched when Mask of its first byte is Bits. In a breakpoint
// instruction, the kernel's or a debugger's, the low five bits are zero; in the
// nop they are ones.
const Mask, Bits = 0x1f, 0
