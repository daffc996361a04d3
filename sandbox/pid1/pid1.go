// Package pid1 holds the init of a run's pid namespace: a static program of
// about one KiB without libc, built from src/init.c and committed. It is executed
// from a memfd, under the run's own restrictions.
//
//	pid1.Binary // the ELF file for this architecture
package pid1

//go:generate ./build.sh

// Records that the init writes to its status descriptor: two native 32-bit
// words, what and value.
const (
	RecordExec = 1 // the command could not be executed; value is the errno
	RecordExit = 2 // the command ended; value is the wait status (wait(2))
	RecordSize = 8 // bytes
)
