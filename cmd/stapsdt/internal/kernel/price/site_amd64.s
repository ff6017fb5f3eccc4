#include "textflag.h"

// Functions whose first instructions are probed, as they are in the code of Go programs and in
// notes.
// They change no register but BP and the flags, and restore BP.

TEXT nop1code<>(SB), NOSPLIT|NOFRAME, $0-0
	BYTE $0x90
	RET

TEXT nop5code<>(SB), NOSPLIT|NOFRAME, $0-0
	BYTE $0x0f; BYTE $0x1f; BYTE $0x44; BYTE $0x00; BYTE $0x00
	RET

TEXT nop10code<>(SB), NOSPLIT|NOFRAME, $0-0
	BYTE $0x66; BYTE $0x2e; BYTE $0x0f; BYTE $0x1f; BYTE $0x84
	BYTE $0x00; BYTE $0x00; BYTE $0x00; BYTE $0x00; BYTE $0x00
	RET

// pushq %rbp; popq %rbp. The assembler would refuse a PUSHQ without a frame.
TEXT pushcode<>(SB), NOSPLIT|NOFRAME, $0-0
	BYTE $0x55
	BYTE $0x5d
	RET

TEXT retcode<>(SB), NOSPLIT|NOFRAME, $0-0
	RET

// The entry of a Go function compares SP with the bound of the stack.
TEXT comparecode<>(SB), NOSPLIT|NOFRAME, $0-0
	CMPQ SP, (SP)
	RET

DATA ·nop1(SB)/8, $nop1code<>(SB)
GLOBL ·nop1(SB), RODATA, $8
DATA ·nop5(SB)/8, $nop5code<>(SB)
GLOBL ·nop5(SB), RODATA, $8
DATA ·nop10(SB)/8, $nop10code<>(SB)
GLOBL ·nop10(SB), RODATA, $8
DATA ·push(SB)/8, $pushcode<>(SB)
GLOBL ·push(SB), RODATA, $8
DATA ·ret(SB)/8, $retcode<>(SB)
GLOBL ·ret(SB), RODATA, $8
DATA ·compare(SB)/8, $comparecode<>(SB)
GLOBL ·compare(SB), RODATA, $8

// func call(function uintptr, n int)
TEXT ·call(SB), 0, $8-16
	MOVQ function+0(FP), CX
	MOVQ n+8(FP), DX
again:
	CALL CX
	DECQ DX
	JNZ  again
	RET
