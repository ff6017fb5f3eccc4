//go:build !stapsdt_noload

package call

// Idle is the first byte of the nop, e1a00000. Probes that have no site use it instead.
const Idle = 0x00

// A site is patched if its first byte, masked with Mask, is Bits. A breakpoint, the
// kernel's e7f001f9 or a debugger's e7f001f0 or e7ffdefe, ends in a byte whose
// upper half is ones.
const Mask, Bits = 0xf0, 0xf0
