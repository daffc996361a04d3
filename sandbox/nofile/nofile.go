// Package nofile remembers the caller's limit of open files.
//
//	cur, max := nofile.Caller()
//
// Go raises the soft RLIMIT_NOFILE of its own process when package syscall is
// initialised, and restores it only in its own fork and exec. A raw execve
// would pass the raised limit on, so a run would see 20,000 where its caller
// had 1,024. This package imports nothing, not even syscall: packages are
// initialised in the order of their import paths once their imports are ready
// (Go 1.21 release notes), so "lockbox/…" without imports comes before
// "syscall". sandbox.TestCallersOpenFiles shows it in a whole binary.
//
// # What it does not restrict
//
// Nothing: the sandbox sets the limit again in the child.
package nofile

// before is struct rlimit64: soft and hard limit.
var before [2]uint64

// prlimit asks for this process's RLIMIT_NOFILE (prlimit64(2), since Linux
// 2.6.36) and returns the raw result, negative errno included.
//
//go:noescape
func prlimit(old *[2]uint64) int64

func init() {
	if prlimit(&before) != 0 {
		before = [2]uint64{1024, 1024}
	}
}

// Caller returns the soft and hard limit as this process was started with.
func Caller() (cur, max uint64) { return before[0], before[1] }
