#include "textflag.h"

// Functions whose first instructions are probed, as they are in the code of Go programs and in
// notes.
// They change R16 only.

TEXT nop4code<>(SB), NOSPLIT|NOFRAME, $0-0
	WORD $0xd503201f
	RET

// The branch goes to the next instruction, and costs the same whether it is taken or not.
TEXT branchcode<>(SB), NOSPLIT|NOFRAME, $0-0
	BLS end
end:
	RET

TEXT retcode<>(SB), NOSPLIT|NOFRAME, $0-0
	RET

// The entry of a Go function loads the bound of the stack from g.
TEXT loadcode<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVD 16(g), R16
	RET

DATA ·nop4(SB)/8, $nop4code<>(SB)
GLOBL ·nop4(SB), RODATA, $8
DATA ·branch(SB)/8, $branchcode<>(SB)
GLOBL ·branch(SB), RODATA, $8
DATA ·ret(SB)/8, $retcode<>(SB)
GLOBL ·ret(SB), RODATA, $8
DATA ·load(SB)/8, $loadcode<>(SB)
GLOBL ·load(SB), RODATA, $8

// func call(function uintptr, n int)
TEXT ·call(SB), 0, $32-16
	MOVD function+0(FP), R1
	MOVD n+8(FP), R2
again:
	CALL (R1)
	SUBS $1, R2
	BNE  again
	RET
