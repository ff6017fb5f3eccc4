//go:build 386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x

// Package calltest makes machine code that tests put in the place of a site: a function that
// stores twelve arguments of 8 bytes, which it reads from the places in the notes.
// Each architecture's file writes the function from the encoding of the instruction set, and
// uses nothing of the code that it tests.
package calltest

import "unsafe"

// Arguments is the number of arguments that are stored.
const Arguments = 12

// Record has the values that the function stores: the arguments and, on architectures on which Go keeps
// frame pointers, the frame pointer and the value that it points to, which is the caller's.
type Record struct {
	Args          [Arguments]uint64
	Frame, Caller uint64
}

// Code returns the function, which stores into out, a package variable. It begins with an
// instruction that has no effect and whose first byte reads as patched. It ends with a
// return.
func Code(out *Record) []byte {
	// SAFETY: the address becomes an operand of the code. Callers pass static memory,
	// which neither moves nor is freed.
	return code(uint64(uintptr(unsafe.Pointer(out))))
}

// asm is a piece of machine code.
type asm []byte

func (a *asm) bytes(b ...byte) { *a = append(*a, b...) }
