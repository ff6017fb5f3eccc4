#include "go_asm.h"
#include "textflag.h"

// A site is called as a C function would be: AAPCS64 passes the first eight
// integers in R0 to R7, and the others on the stack, the ninth lowest. cgo's
// switch to the system stack is left out, as a site needs none: it is a nop
// and a return. The kernel steps a traced site out of line and pushes nothing.
//
// Few needs no frame, and jumps: the site returns to Few's caller.

#define SITE R9
#define WORDS R10

// LOAD loads the site's address, once, and leaves when it is not patched.
#define LOAD \
	MOVD at+0(FP), SITE; \
	MOVD words+8(FP), WORDS; \
	LDAR (SITE), SITE; \
	MOVBU (SITE), R11; \
	AND  $const_Mask, R11; \
	CMP  $const_Bits, R11; \
	BNE  idle

// func Few(at *unsafe.Pointer, words *[6]uint64) (called bool)
TEXT ·Few(SB), NOSPLIT, $0-17
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

// func Many(at *unsafe.Pointer, words *[12]uint64) (called bool)
TEXT ·Many(SB), NOSPLIT, $16-17
	LOAD

	// 0(RSP) holds the saved link register, by Go's convention, where the
	// site expects argument 8, and -8(RSP) the saved frame pointer, which
	// stack walks read: make room below both.
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
