#include "go_asm.h"
#include "textflag.h"

// A site is called as a C function would be: the System V convention passes the
// first six integers in DI, SI, DX, CX, R8 and R9, and the others on the stack,
// the seventh lowest. cgo's switch to the system stack is left out, as a site
// needs none: it is a nop and a return.
//
// Few needs no frame, and jumps: the site returns to Few's caller. Behind a traced
// site the processor has often forgotten where to return to, and each frame less is
// a few nanoseconds less.
//
// A traced site puts less than 192 bytes on the stack: where the kernel made the
// nop a call, what that call and the uprobe trampoline push (32 bytes; behind a
// ten-byte nop another 128, the red zone). The linker, which sees no callee, does
// not count them. Many's frame is larger by as much, and Few is called by fire and
// enter, whose chain leaves hundreds of bytes of what a NOSPLIT chain may use.

#define SITE AX
#define WORDS R10

// LOAD loads the site's address, once, and leaves when it is not patched.
#define LOAD \
	MOVQ at+0(FP), SITE; \
	MOVQ words+8(FP), WORDS; \
	MOVQ (SITE), SITE; \
	MOVBLZX (SITE), R11; \
	ANDL $const_Mask, R11; \
	CMPL R11, $const_Bits; \
	JNE  idle

// REGISTERS moves arguments 0 to 5.
#define REGISTERS \
	MOVQ 0(WORDS), DI; \
	MOVQ 8(WORDS), SI; \
	MOVQ 16(WORDS), DX; \
	MOVQ 24(WORDS), CX; \
	MOVQ 32(WORDS), R8; \
	MOVQ 40(WORDS), R9

// func Few(at *unsafe.Pointer, words *[6]uint64) (called bool)
TEXT ·Few(SB), NOSPLIT, $0-17
	LOAD
	REGISTERS
	MOVB $1, called+16(FP)
	JMP  SITE
idle:
	MOVB $0, called+16(FP)
	RET

// func Many(at *unsafe.Pointer, words *[12]uint64) (called bool)
TEXT ·Many(SB), NOSPLIT, $240-17
	LOAD

	// The call pushes the return address, so that 0(SP) is 8(%rsp) at the
	// site.
	MOVQ 48(WORDS), R11
	MOVQ R11, 0(SP)     // argument 6
	MOVQ 56(WORDS), R11
	MOVQ R11, 8(SP)     // argument 7
	MOVQ 64(WORDS), R11
	MOVQ R11, 16(SP)    // argument 8
	MOVQ 72(WORDS), R11
	MOVQ R11, 24(SP)    // argument 9
	MOVQ 80(WORDS), R11
	MOVQ R11, 32(SP)    // argument 10
	MOVQ 88(WORDS), R11
	MOVQ R11, 40(SP)    // argument 11

	REGISTERS
	CALL SITE
	MOVB $1, called+16(FP)
	RET
idle:
	MOVB $0, called+16(FP)
	RET
