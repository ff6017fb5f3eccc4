//go:build !stapsdt_noload

#include "go_asm.h"
#include "textflag.h"

// A site is called like a C function: AAPCS64 passes the first eight integers in R0 to R7,
// and the others on the stack, the ninth at the lowest address. cgo's switch to the system
// stack is omitted, because a site does not need it: it is a nop and a return. The kernel
// single-steps a traced site out of line and pushes nothing.
//
// WithRegisters needs no frame and jumps to the site, which returns to the caller of
// WithRegisters.

#define SITE R9
#define WORDS R10

// LOAD loads the site's address, once, and jumps to idle if the site is not patched.
#define LOAD \
	MOVD at+0(FP), SITE; \
	MOVD words+8(FP), WORDS; \
	LDAR (SITE), SITE; \
	MOVBU (SITE), R11; \
	AND  $const_Mask, R11; \
	CMP  $const_Bits, R11; \
	BNE  idle

// func WithRegisters(at *unsafe.Pointer, words *[6]uint64) (called bool)
TEXT ·WithRegisters(SB), NOSPLIT, $0-17
	LOAD
	LDP  0(WORDS), (R0, R1)  // arguments 0 and 1
	LDP  16(WORDS), (R2, R3) // arguments 2 and 3
	LDP  32(WORDS), (R4, R5) // arguments 4 and 5
	MOVD $1, R11
	MOVB R11, called+16(FP)
	B    (SITE)
idle:
	MOVB ZR, called+16(FP)
	RET

// func WithStack(at *unsafe.Pointer, words *[12]uint64) (called bool)
TEXT ·WithStack(SB), NOSPLIT, $16-17
	LOAD

	// By Go's convention, 0(RSP) holds the saved link register, where the site
	// expects argument 8, and -8(RSP) holds the saved frame pointer, which stack
	// walks read. So make room below both.
	SUB  $48, RSP
	LDP  64(WORDS), (R11, R12)
	STP  (R11, R12), 0(RSP)  // arguments 8 and 9
	LDP  80(WORDS), (R11, R12)
	STP  (R11, R12), 16(RSP) // arguments 10 and 11

	LDP  0(WORDS), (R0, R1)  // arguments 0 and 1
	LDP  16(WORDS), (R2, R3) // arguments 2 and 3
	LDP  32(WORDS), (R4, R5) // arguments 4 and 5
	LDP  48(WORDS), (R6, R7) // arguments 6 and 7
	BL   (SITE)
	ADD  $48, RSP
	MOVD $1, R11
	MOVB R11, called+16(FP)
	RET
idle:
	MOVB ZR, called+16(FP)
	RET

// func Goroutine() uintptr
TEXT ·Goroutine(SB), NOSPLIT, $0-8
	MOVD g, R0
	MOVD R0, ret+0(FP)
	RET
