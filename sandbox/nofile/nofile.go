// Package nofile remembers the caller's limit of open files.
//
// Go raises the soft RLIMIT_NOFILE of its own process when package os is
// initialised, and restores it only in its own fork and exec. A raw execve
// would pass the raised limit on, so a run would see 20,000 where its caller
// had 1,024. This package imports only syscall: packages are initialised in the
// order of their import paths once their imports are ready (Go 1.21 release
// notes), so it reads the limit before os changes it. A test of the whole binary
// shows it.
package nofile

import "syscall"

var before syscall.Rlimit

func init() {
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before) != nil {
		before = syscall.Rlimit{Cur: 1024, Max: 1024}
	}
}

// Caller returns the soft and hard limit as this process was started with.
func Caller() (cur, max uint64) { return uint64(before.Cur), uint64(before.Max) }
