#include "textflag.h"

// func deepen()
TEXT ·deepen(SB), 0, $24576-0
	RET
