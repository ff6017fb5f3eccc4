#include "textflag.h"

// func Load()
TEXT ·Load(SB), NOSPLIT|NOFRAME, $0-0
	LWSYNC
	RET

// func Store()
TEXT ·Store(SB), NOSPLIT|NOFRAME, $0-0
	LWSYNC
	RET
