//go:build !stapsdt_noload

#include "go_asm.h"
#include "textflag.h"

// A site is called like a C function: the first eight integers are passed in A0 to A7 (X10
// to X17), and the others on the stack, the ninth at the lowest address. cgo's switch to
// the system stack is omitted, because a site does not need it: it is a nop and a return.
// The kernel single-steps a traced site out of line and pushes nothing.

// SITE is not X5, because that is an alternate link register: a call through it looks like
// a return.
#define SITE X29
#define WORDS X6

// LOAD loads the site's address, once, and jumps to idle if the site is not patched.
#define LOAD \
	MOV  at+0(FP), SITE; \
	MOV  words+8(FP), WORDS; \
	MOV  (SITE), SITE; \
	MOVBU (SITE), X7; \
	AND  $const_Mask, X7; \
	MOV  $const_Bits, X28; \
	BNE  X7, X28, idle

// REGISTERS moves arguments 0 to 5.
#define REGISTERS \
	MOV  0(WORDS), X10; \
	MOV  8(WORDS), X11; \
	MOV  16(WORDS), X12; \
	MOV  24(WORDS), X13; \
	MOV  32(WORDS), X14; \
	MOV  40(WORDS), X15

// func WithRegisters(at *unsafe.Pointer, words *[6]uint64) (called bool)
TEXT ·WithRegisters(SB), NOSPLIT, $16-17
	LOAD
	REGISTERS
	CALL SITE
	MOV  $1, X7
	MOVB X7, called+16(FP)
	RET
idle:
	MOVB ZERO, called+16(FP)
	RET

// func WithStack(at *unsafe.Pointer, words *[12]uint64) (called bool)
TEXT ·WithStack(SB), NOSPLIT, $16-17
	LOAD

	// By Go's convention, 0(X2) holds the saved link register, where the site expects
	// argument 8. So make room below it.
	ADD  $-32, X2
	MOV  64(WORDS), X7
	MOV  X7, 0(X2)       // argument 8
	MOV  72(WORDS), X7
	MOV  X7, 8(X2)       // argument 9
	MOV  80(WORDS), X7
	MOV  X7, 16(X2)      // argument 10
	MOV  88(WORDS), X7
	MOV  X7, 24(X2)      // argument 11

	REGISTERS
	MOV  48(WORDS), X16  // argument 6
	MOV  56(WORDS), X17  // argument 7
	CALL SITE
	ADD  $32, X2
	MOV  $1, X7
	MOVB X7, called+16(FP)
	RET
idle:
	MOVB ZERO, called+16(FP)
	RET

// func Goroutine() uintptr
TEXT ·Goroutine(SB), NOSPLIT, $0-8
	MOV  g, X10
	MOV  X10, ret+0(FP)
	RET
