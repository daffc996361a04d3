#include "textflag.h"

// func prlimit(old *[2]uint64) int64
TEXT ·prlimit(SB), NOSPLIT, $0-16
	MOVD	$261, R8	// SYS_prlimit64
	MOVD	$0, R0		// this process
	MOVD	$7, R1		// RLIMIT_NOFILE
	MOVD	$0, R2		// nothing new
	MOVD	old+0(FP), R3
	SVC
	MOVD	R0, ret+8(FP)
	RET
