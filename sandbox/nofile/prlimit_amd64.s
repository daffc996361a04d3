#include "textflag.h"

// func prlimit(old *[2]uint64) int64
TEXT ·prlimit(SB), NOSPLIT, $0-16
	MOVQ	$302, AX	// SYS_prlimit64
	XORQ	DI, DI		// this process
	MOVQ	$7, SI		// RLIMIT_NOFILE
	XORQ	DX, DX		// nothing new
	MOVQ	old+0(FP), R10
	SYSCALL
	MOVQ	AX, ret+8(FP)
	RET
