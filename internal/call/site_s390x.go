package call

// Idle is the first byte of the nop, for probes that have no site.
const Idle = 0x47

// A site is patched when Mask of its first byte is Bits. A breakpoint, the
// kernel's 00 02 or a debugger's 00 01, begins with a zero.
const Mask, Bits = 0x07, 0
