//go:build 386 || amd64

package call

// Idle is the first byte of a nop, for probes that have no site.
const Idle = 0x90

// A site is patched when Mask of its first byte is Bits. A nop begins with 90,
// 0f or 66. What the kernel and debuggers write over it is cc, then e8 or 48
// where the kernel made it a call; what stands where a site was (package region)
// begins with c3. Bits 3 and 6 tell the patched from the others in one test, so
// that it need not be loaded which nop this process chose.
const Mask, Bits = 0x48, 0x48
