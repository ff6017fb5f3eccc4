//go:build linux

package tracetest

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
)

// ptRegs is the order of the words of an architecture's struct pt_regs, which is what a BPF program of a uprobe is
// given: registers by their 64-bit names, "ip", and "" for what no operand means. Follows arch/x86/include/asm/ptrace.h
// and arch/arm64/include/asm/ptrace.h.
var ptRegs = map[string][]string{
	"amd64": {"%r15", "%r14", "%r13", "%r12", "%rbp", "%rbx", "%r11", "%r10", "%r9", "%r8", "%rax", "%rcx", "%rdx",
		"%rsi", "%rdi", "", "ip", "", "", "%rsp", ""},
	"arm64": arm64PtRegs(),
}

func arm64PtRegs() []string {
	var names []string
	for i := range 31 {
		names = append(names, fmt.Sprintf("x%d", i))
	}
	return append(names, "sp", "ip", "")
}

// PtRegsWords is how many words of struct pt_regs [NewSample] takes, and 0 on an architecture that is not known.
func PtRegsWords() int { return len(ptRegs[runtime.GOARCH]) }

// PtRegsOffset is where in struct pt_regs a BPF program finds a register, in bytes, by its 64-bit name in notes, or by
// "ip". It reports false for one that this machine does not have.
func PtRegsOffset(name string) (offset int, ok bool) {
	for i, n := range ptRegs[runtime.GOARCH] {
		if n == name && name != "" {
			return 8 * i, true
		}
	}
	return 0, false
}

// NewSample makes a sample of what a BPF program saw: the words of struct pt_regs, and the memory at the stack pointer.
// It has no time. [Sample.Arg] then decodes it as it does those of the PMU.
func NewSample(pid, tid int, regs []byte, stack []byte) (Sample, error) {
	return newSample(pid, tid, regs, stack, runtime.GOARCH)
}

func newSample(pid, tid int, regs []byte, stack []byte, arch string) (Sample, error) {
	names, l := ptRegs[arch], layouts[arch]
	if l == nil || len(regs) != 8*len(names) {
		return Sample{}, fmt.Errorf("%d bytes of registers, not %d", len(regs), 8*len(names))
	}
	s := Sample{PID: pid, TID: tid, Stack: stack, layout: l, words: make([]uint64, bits.OnesCount64(l.mask))}
	for i, name := range names {
		word := binary.NativeEndian.Uint64(regs[8*i:])
		if name == "ip" {
			s.IP = word
		} else if r, ok := l.names[name]; ok {
			s.words[bits.OnesCount64(l.mask&(1<<r.index-1))] = word
		}
	}
	s.SP, _ = l.value(s.words, register{l.sp, 64})
	return s, nil
}
