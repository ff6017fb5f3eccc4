//go:build !stapsdt_noload

#include "go_asm.h"
#include "textflag.h"

// A site is called like a C function: the System V convention passes the first six
// integers in DI, SI, DX, CX, R8 and R9, and the others on the stack, the seventh at the
// lowest address. cgo's switch to the system stack is omitted, because a site does not
// need it: it is a nop and a return.
//
// WithRegisters needs no frame and jumps to the site, which returns to the caller of
// WithRegisters. After a traced site the processor has often forgotten where to return to,
// and each frame that is saved saves a few nanoseconds.
//
// A traced site puts less than 192 bytes on the stack: if the kernel has turned the nop
// into a call, this call and the uprobe trampoline push 32 bytes, and with a ten-byte nop
// the red zone adds 128. The linker does not count them, because it sees no callee. So
// WithStack's frame is larger than it needs by 192 bytes. The callers of WithRegisters, fire
// and enter, leave hundreds of the bytes that a NOSPLIT chain may use.

#define SITE AX
#define WORDS R10

// LOAD loads the site's address, once, and jumps to idle if the site is not patched.
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

// func WithRegisters(at *unsafe.Pointer, words *[6]uint64) (called bool)
TEXT ·WithRegisters(SB), NOSPLIT, $0-17
	LOAD
	REGISTERS
	MOVB $1, called+16(FP)
	JMP  SITE
idle:
	MOVB $0, called+16(FP)
	RET

// func WithStack(at *unsafe.Pointer, words *[12]uint64) (called bool)
TEXT ·WithStack(SB), NOSPLIT, $240-17
	LOAD

	// The call pushes the return address, so 0(SP) is 8(%rsp) at the site.
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

// func Goroutine() uintptr
TEXT ·Goroutine(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET
