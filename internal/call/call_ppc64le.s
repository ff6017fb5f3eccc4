//go:build !stapsdt_noload

#include "go_asm.h"
#include "textflag.h"

// A site is called like a C function: ELFv2 passes the first eight integers in R3 to R10,
// and the others on the stack, above the frame's header of 32 bytes and the room for those
// eight. cgo's switch to the system stack is omitted, because a site does not need it: it
// is a nop and a return. The kernel emulates a traced nop and pushes nothing.

#define SITE R12
#define WORDS R11

// LOAD loads the site's address, once, and jumps to idle if the site is not patched.
#define LOAD \
	MOVD at+0(FP), SITE; \
	MOVD words+8(FP), WORDS; \
	MOVD (SITE), SITE; \
	MOVBZ (SITE), R14; \
	ANDCC $const_Mask, R14; \
	CMP  R14, $const_Bits; \
	BNE  idle

// REGISTERS moves arguments 0 to 5.
#define REGISTERS \
	MOVD 0(WORDS), R3; \
	MOVD 8(WORDS), R4; \
	MOVD 16(WORDS), R5; \
	MOVD 24(WORDS), R6; \
	MOVD 32(WORDS), R7; \
	MOVD 40(WORDS), R8; \
	MOVD SITE, CTR

// func WithRegisters(at *unsafe.Pointer, words *[6]uint64) (called bool)
TEXT ·WithRegisters(SB), NOSPLIT, $64-17
	LOAD
	REGISTERS
	BL   (CTR)
	MOVD $1, R14
	MOVB R14, called+16(FP)
	RET
idle:
	MOVB R0, called+16(FP)
	RET

// func WithStack(at *unsafe.Pointer, words *[12]uint64) (called bool)
TEXT ·WithStack(SB), NOSPLIT, $96-17
	LOAD
	MOVD 64(WORDS), R14
	MOVD R14, 96(R1)     // argument 8
	MOVD 72(WORDS), R14
	MOVD R14, 104(R1)    // argument 9
	MOVD 80(WORDS), R14
	MOVD R14, 112(R1)    // argument 10
	MOVD 88(WORDS), R14
	MOVD R14, 120(R1)    // argument 11
	REGISTERS
	MOVD 48(WORDS), R9   // argument 6
	MOVD 56(WORDS), R10  // argument 7
	BL   (CTR)
	MOVD $1, R14
	MOVB R14, called+16(FP)
	RET
idle:
	MOVB R0, called+16(FP)
	RET

// func Goroutine() uintptr
TEXT ·Goroutine(SB), NOSPLIT, $0-8
	MOVD g, R3
	MOVD R3, ret+0(FP)
	RET
