//go:build !stapsdt_noload

package call

// Idle is the first byte of the nop, 60000000. Probes that have no site use it instead.
const Idle = 0x00

// A site is patched if its first byte, masked with Mask, is Bits. A breakpoint, the
// kernel's 7fe00008 or a debugger's 7d821008, ends in an 8, which comes first.
const Mask, Bits = 0x08, 0x08
