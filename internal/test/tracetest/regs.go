//go:build linux

package tracetest

import (
	"fmt"
	"math/bits"
	"runtime"
)

// register is one name of a register: which word of the kernel's perf_regs holds it, and how many of its low bits the
// name means.
type register struct {
	index uint
	bits  uint
}

// layout says what the kernel samples on an architecture, and in which order.
type layout struct {
	mask   uint64 // perf_event_attr.sample_regs_user
	ip, sp uint
	names  map[string]register
}

// layouts is keyed by GOARCH and not split by build tags, so that each decoder is tested on every machine. On an
// architecture that is not listed, samples come without registers.
var layouts = map[string]*layout{
	"amd64": amd64Layout(),
	"arm64": arm64Layout(),
}

// hostLayout is nil where the architecture is not listed.
func hostLayout() *layout { return layouts[runtime.GOARCH] }

// amd64Layout follows arch/x86/include/uapi/asm/perf_regs.h.
func amd64Layout() *layout {
	l := &layout{ip: 8, sp: 7, names: map[string]register{}}
	// DS, ES, FS and GS (12 to 15) are refused by a 64-bit kernel, and are no operands.
	l.mask = (1<<24 - 1) &^ (0xf << 12)
	for i, r := range []string{"ax", "bx", "cx", "dx", "si", "di", "bp", "sp"} {
		n := uint(i)
		low := r + "l" // sil, dil, bpl, spl
		if r[1] == 'x' {
			low = r[:1] + "l" // al, bl, cl, dl
		}
		l.names["%r"+r] = register{n, 64}
		l.names["%e"+r] = register{n, 32}
		l.names["%"+r] = register{n, 16}
		l.names["%"+low] = register{n, 8}
	}
	for i := uint(8); i < 16; i++ {
		n := i + 8
		r := fmt.Sprintf("%%r%d", i)
		l.names[r] = register{n, 64}
		l.names[r+"d"] = register{n, 32}
		l.names[r+"w"] = register{n, 16}
		l.names[r+"b"] = register{n, 8}
	}
	return l
}

// arm64Layout follows arch/arm64/include/uapi/asm/perf_regs.h.
func arm64Layout() *layout {
	l := &layout{ip: 32, sp: 31, mask: 1<<33 - 1, names: map[string]register{"sp": {31, 64}}}
	for i := uint(0); i <= 30; i++ {
		l.names[fmt.Sprintf("x%d", i)] = register{i, 64}
		l.names[fmt.Sprintf("w%d", i)] = register{i, 32}
	}
	return l
}

// value picks a register out of the sampled words, of which there is one for each bit of the mask, lowest first.
func (l *layout) value(words []uint64, r register) (uint64, bool) {
	if l == nil || l.mask&(1<<r.index) == 0 {
		return 0, false
	}
	at := bits.OnesCount64(l.mask & (1<<r.index - 1))
	if at >= len(words) {
		return 0, false
	}
	return words[at] & (^uint64(0) >> (64 - r.bits)), true
}
