//go:build !stapsdt_noload

#include "go_asm.h"
#include "textflag.h"

// A site is called like a C function whose first four integers, in R0 to R3, are unused:
// all arguments are on the stack, in 8 bytes each, the first at the lowest address. cgo's
// switch to the system stack is omitted, because a site does not need it: it is a nop and
// a return. The kernel single-steps a traced site out of line and pushes nothing.

#define SITE R0
#define WORDS R1
#define TO R2

// LOAD loads the site's address, once, and jumps to idle if the site is not patched.
#define LOAD \
	MOVW at+0(FP), SITE; \
	MOVW words+4(FP), WORDS; \
	MOVW (SITE), SITE; \
	MOVBU (SITE), R3; \
	AND  $const_Mask, R3; \
	CMP  $const_Bits, R3; \
	BNE  idle

// COPY copies three arguments to the stack.
#define COPY \
	MOVM.IA.W (WORDS), [R3-R8]; \
	MOVM.IA.W [R3-R8], (TO)

// By Go's convention, 0(R13) holds the saved link register, where the site expects
// argument 0. So both functions make room below it.

// func WithRegisters(at *unsafe.Pointer, words *[6]uint64) (called bool)
TEXT ·WithRegisters(SB), NOSPLIT, $8-9
	LOAD
	SUB  $48, R13
	MOVW R13, TO
	COPY // arguments 0 to 2
	COPY // 3 to 5
	BL   (SITE)
	ADD  $48, R13
	MOVW $1, R3
	MOVB R3, called+8(FP)
	RET
idle:
	MOVW $0, R3
	MOVB R3, called+8(FP)
	RET

// func WithStack(at *unsafe.Pointer, words *[12]uint64) (called bool)
TEXT ·WithStack(SB), NOSPLIT, $8-9
	LOAD
	SUB  $96, R13
	MOVW R13, TO
	COPY // arguments 0 to 2
	COPY // 3 to 5
	COPY // 6 to 8
	COPY // 9 to 11
	BL   (SITE)
	ADD  $96, R13
	MOVW $1, R3
	MOVB R3, called+8(FP)
	RET
idle:
	MOVW $0, R3
	MOVB R3, called+8(FP)
	RET

// func Goroutine() uintptr
TEXT ·Goroutine(SB), NOSPLIT, $0-4
	MOVW g, R0
	MOVW R0, ret+0(FP)
	RET
