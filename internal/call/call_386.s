#include "go_asm.h"
#include "textflag.h"

// A site is called as a C function would be: all arguments are on the stack, the
// first lowest, of 8 bytes each. cgo's switch to the system stack is left out, as
// a site needs none: it is a nop and a return. The kernel emulates a traced nop
// and pushes nothing.

#define SITE AX

// LOAD loads the site's address, once, and leaves when it is not patched.
#define LOAD \
	MOVL at+0(FP), SITE; \
	MOVL words+4(FP), SI; \
	MOVL (SITE), SITE; \
	MOVBLZX (SITE), CX; \
	ANDL $const_Mask, CX; \
	CMPL CX, $const_Bits; \
	JNE  idle

// COPY copies n words of 4 bytes to the stack's top. The call pushes the return
// address, so that 0(SP) is 4(%esp) at the site.
#define COPY(n) \
	MOVL SP, DI; \
	MOVL $n, CX; \
	CLD; \
	REP; MOVSL

// func Few(at *unsafe.Pointer, words *[6]uint64) (called bool)
TEXT ·Few(SB), NOSPLIT, $56-9
	LOAD
	COPY(12)
	CALL SITE
	MOVB $1, called+8(FP)
	RET
idle:
	MOVB $0, called+8(FP)
	RET

// func Many(at *unsafe.Pointer, words *[12]uint64) (called bool)
TEXT ·Many(SB), NOSPLIT, $104-9
	LOAD
	COPY(24)
	CALL SITE
	MOVB $1, called+8(FP)
	RET
idle:
	MOVB $0, called+8(FP)
	RET
