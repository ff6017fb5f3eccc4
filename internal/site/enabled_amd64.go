package site

// IdleByte is a first byte of a nop, for probes that have no site.
const IdleByte = 0x90

// Patched reports whether a site's first byte is a tracer's. A nop begins with
// 90, 0f or 66. What the kernel and debuggers write over it is cc, then e8 or
// 48 where the kernel made it a call, and a return that stands where a site was
// is c3. Bits 3 and 6 tell the two groups apart in one test, so that it need not
// be loaded which nop this process chose.
func Patched(first byte) bool { return first&0x48 == 0x48 }
