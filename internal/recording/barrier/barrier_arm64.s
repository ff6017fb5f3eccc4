#include "textflag.h"

// func Load()
TEXT ·Load(SB), NOSPLIT, $0-0
	DMB $0x9 // ISHLD
	RET

// func Store()
TEXT ·Store(SB), NOSPLIT, $0-0
	DMB $0xA // ISHST
	RET
