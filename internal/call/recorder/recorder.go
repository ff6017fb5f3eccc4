//go:build 386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x

// Package recorder is machine code that tests put in a site's place: a function
// that stores the twelve arguments of 8 bytes that it is called with where the
// notes say that they are. Each architecture's file writes it from the
// instruction set's encoding, and uses nothing of what it is a test of.
package recorder

import "unsafe"

// Arguments is the number of arguments that are stored.
const Arguments = 12

// Record is what the function stores: the arguments; and where Go keeps frame
// pointers, that one, and what it points to, which is the caller's.
type Record struct {
	Args          [Arguments]uint64
	Frame, Caller uint64
}

// Code returns the function, which stores into out, a package variable. It begins
// with an instruction of no effect, whose first byte reads as patched, and ends with
// a return.
func Code(out *Record) []byte {
	// SAFETY: the address becomes an operand of the code. Callers give static
	// memory, which neither moves nor is freed.
	return code(uint64(uintptr(unsafe.Pointer(out))))
}

// asm is a piece of machine code.
type asm []byte

func (a *asm) bytes(b ...byte) { *a = append(*a, b...) }
