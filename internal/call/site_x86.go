//go:build (386 || amd64) && !stapsdt_noload

package call

// Idle is the first byte of a nop. Probes that have no site use it instead.
const Idle = 0x90

// A site is patched if its first byte, masked with Mask, is Bits. A nop begins with 90, 0f or
// 66. The kernel and debuggers overwrite this byte with cc, and the kernel then with e8 or 48
// if it turns the nop into a call. The code that replaces a site (package region) begins with
// c3. Bits 3 and 6 distinguish the patched sites from the others in one test, so Fire does not
// have to load which nop this process chose.
const Mask, Bits = 0x48, 0x48
