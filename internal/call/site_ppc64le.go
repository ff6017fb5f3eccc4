package call

// Idle is the first byte of the nop, 60000000, for probes that have no site.
const Idle = 0x00

// A site is patched when Mask of its first byte is Bits. A breakpoint, the
// kernel's 7fe00008 or a debugger's 7d821008, ends in an 8, which comes first.
const Mask, Bits = 0x08, 0x08
