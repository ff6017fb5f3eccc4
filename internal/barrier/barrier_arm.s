#include "textflag.h"

// func Load()
TEXT ·Load(SB), NOSPLIT, $0-0
	DMB MB_ISH
	RET

// func Store()
TEXT ·Store(SB), NOSPLIT, $0-0
	DMB MB_ISHST
	RET
