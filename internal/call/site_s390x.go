//go:build !stapsdt_noload

package call

// Idle is the first byte of the nop. Probes that have no site use it instead.
const Idle = 0x47

// A site is patched if its first byte, masked with Mask, is Bits. A breakpoint, the
// kernel's 00 02 or a debugger's 00 01, begins with a zero.
const Mask, Bits = 0x07, 0
