#include "textflag.h"

// func Load()
TEXT ·Load(SB), NOSPLIT, $0-0
	FENCE
	RET

// func Store()
TEXT ·Store(SB), NOSPLIT, $0-0
	FENCE
	RET
