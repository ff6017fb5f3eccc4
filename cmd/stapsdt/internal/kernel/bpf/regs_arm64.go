package bpf

import "fmt"

// registers maps the names of registers in notes to their offsets in struct user_pt_regs
// (arch/arm64/include/uapi/asm/ptrace.h).
var registers = func() map[string]int16 {
	m := map[string]int16{"sp": 8 * 31}
	for i := range 31 {
		m[fmt.Sprintf("x%d", i)] = int16(8 * i)
	}
	return m
}()

// flagsOffset is the offset of the processor's flags.
const flagsOffset = 8 * 33

const ipOffset = 8 * 32

// goroutineRegister holds Go's g while Go code runs (cmd/compile/abi-internal.md).
const goroutineRegister, stackRegister = "x28", "sp"
