package bpf

// registers maps the names of registers in notes, of 64-bit and 32-bit programs, to their
// offsets in struct pt_regs (arch/x86/include/asm/ptrace.h).
var registers = func() map[string]int16 {
	m := map[string]int16{}
	for i, name := range []string{"r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di"} {
		full := "%" + name
		if name[0] != 'r' {
			full = "%r" + name
			m["%e"+name] = int16(8 * i)
		}
		m[full] = int16(8 * i)
	}
	m["%rsp"], m["%esp"] = 8*19, 8*19
	return m
}()

// flagsOffset is the offset of the processor's flags.
const flagsOffset = 8 * 18

const ipOffset = 8 * 16

// goroutineRegister holds Go's g while Go code runs (cmd/compile/abi-internal.md).
const goroutineRegister, stackRegister = "%r14", "%rsp"
