//go:build !stapsdt_noload

package call

// Idle is the first byte of the nop. Probes that have no site use it instead.
const Idle = 0x01

// A site is patched if its first byte, masked with Mask, is Bits. In a breakpoint
// instruction, c.ebreak (02 90) or ebreak (73 00 10 00), bit 1 is one; in c.nop
// it is zero.
const Mask, Bits = 0x02, 0x02
