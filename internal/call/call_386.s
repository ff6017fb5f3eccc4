//go:build !stapsdt_noload

#include "go_asm.h"
#include "textflag.h"

// A site is called like a C function: all arguments are on the stack, in 8 bytes each,
// the first at the lowest address. cgo's switch to the system stack is omitted, because
// a site does not need it: it is a nop and a return. The kernel emulates a traced nop and
// pushes nothing.

#define SITE AX

// LOAD loads the site's address, once, and jumps to idle if the site is not patched.
#define LOAD \
	MOVL at+0(FP), SITE; \
	MOVL words+4(FP), SI; \
	MOVL (SITE), SITE; \
	MOVBLZX (SITE), CX; \
	ANDL $const_Mask, CX; \
	CMPL CX, $const_Bits; \
	JNE  idle

// COPY copies n words of 4 bytes to the top of the stack. The call pushes the return
// address, so 0(SP) is 4(%esp) at the site.
#define COPY(n) \
	MOVL SP, DI; \
	MOVL $n, CX; \
	CLD; \
	REP; MOVSL

// func WithRegisters(at *unsafe.Pointer, words *[6]uint64) (called bool)
TEXT ·WithRegisters(SB), NOSPLIT, $56-9
	LOAD
	COPY(12)
	CALL SITE
	MOVB $1, called+8(FP)
	RET
idle:
	MOVB $0, called+8(FP)
	RET

// func WithStack(at *unsafe.Pointer, words *[12]uint64) (called bool)
TEXT ·WithStack(SB), NOSPLIT, $104-9
	LOAD
	COPY(24)
	CALL SITE
	MOVB $1, called+8(FP)
	RET
idle:
	MOVB $0, called+8(FP)
	RET

// func Goroutine() uintptr
TEXT ·Goroutine(SB), NOSPLIT, $0-4
	MOVL (TLS), AX
	MOVL AX, ret+0(FP)
	RET
