//go:build !stapsdt_noload

#include "go_asm.h"
#include "textflag.h"

// A site is called like a C function: the first five integers are passed in R2 to R6, and
// the others on the stack, above 160 bytes that belong to the callee. cgo's switch to the
// system stack is omitted, because a site does not need it: it is a nop and a return. The
// kernel single-steps a traced site out of line and pushes nothing. Go keeps the link
// register in the first of the callee's bytes, which a site does not touch.

#define SITE R7
#define WORDS R8

// LOAD loads the site's address, once, and jumps to idle if the site is not patched.
#define LOAD \
	MOVD at+0(FP), SITE; \
	MOVD words+8(FP), WORDS; \
	MOVD (SITE), SITE; \
	MOVBZ (SITE), R9; \
	AND  $const_Mask, R9; \
	CMPBNE R9, $const_Bits, idle

// REGISTERS moves arguments 0 to 4, and argument 5, the first on the stack.
#define REGISTERS \
	MOVD 0(WORDS), R2; \
	MOVD 8(WORDS), R3; \
	MOVD 16(WORDS), R4; \
	MOVD 24(WORDS), R5; \
	MOVD 32(WORDS), R6; \
	MOVD 40(WORDS), R9; \
	MOVD R9, 160(R15)

// func WithRegisters(at *unsafe.Pointer, words *[6]uint64) (called bool)
TEXT ·WithRegisters(SB), NOSPLIT, $168-17
	LOAD
	REGISTERS
	BL   (SITE)
	MOVB $1, called+16(FP)
	RET
idle:
	MOVB $0, called+16(FP)
	RET

// func WithStack(at *unsafe.Pointer, words *[12]uint64) (called bool)
TEXT ·WithStack(SB), NOSPLIT, $216-17
	LOAD
	REGISTERS
	MOVD 48(WORDS), R9
	MOVD R9, 168(R15)   // argument 6
	MOVD 56(WORDS), R9
	MOVD R9, 176(R15)   // argument 7
	MOVD 64(WORDS), R9
	MOVD R9, 184(R15)   // argument 8
	MOVD 72(WORDS), R9
	MOVD R9, 192(R15)   // argument 9
	MOVD 80(WORDS), R9
	MOVD R9, 200(R15)   // argument 10
	MOVD 88(WORDS), R9
	MOVD R9, 208(R15)   // argument 11
	BL   (SITE)
	MOVB $1, called+16(FP)
	RET
idle:
	MOVB $0, called+16(FP)
	RET

// func Goroutine() uintptr
TEXT ·Goroutine(SB), NOSPLIT, $0-8
	MOVD g, R2
	MOVD R2, ret+0(FP)
	RET
