//go:build !stapsdt_noload

package call

// Idle is the first byte of the nop. Probes that have no site use it instead.
const Idle = 0x1f

// A site is patched if its first byte, masked with Mask, is Bits. In a breakpoint
// instruction, the kernel's or a debugger's, the low five bits are zero; in the
// nop they are ones.
const Mask, Bits = 0x1f, 0
