package site

// IdleByte is the first byte of the nop, for probes that have no site.
const IdleByte = 0x1f

// Patched reports whether a site's first byte is a tracer's: anything but the
// nop's own.
func Patched(first byte) bool { return first != IdleByte }
