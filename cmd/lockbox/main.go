// Command lockbox runs a command confined by the kernel, and explains what a
// profile allows.
//
//	lockbox run -p git -- git fetch
//
// It is thin, so that it starts in the time of an empty Go program: it links
// neither BPF nor cgroup code and becomes lockbox-runner, which lies beside
// it, where a run needs those.
package main

import (
	"os"
	"runtime"

	"lockbox/cmd/internal/cli"
)

// A run in place is an execve of the main thread: from another one the kernel
// would have to wait for the main thread's end first.
func init() { runtime.LockOSThread() }

func main() {
	os.Exit(cli.Main(os.Args[1:], nil, cli.Std()))
}
