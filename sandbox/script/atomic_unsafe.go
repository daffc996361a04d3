package script

import "sync/atomic"

// loadFD reads the descriptor that the kernel wrote behind the race detector's
// back (CLONE_PIDFD stores it before the child runs).
//
//go:norace
func loadFD(p *int32) int32 { return atomic.LoadInt32(p) }
