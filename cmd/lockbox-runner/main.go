// Command lockbox-runner is lockbox with cgroups and BPF linked in. The thin
// lockbox becomes it, with the same arguments, where a run needs a limit or the
// egress programs, and for doctor:
//
//	lockbox run --memory 512MiB --pids 64 -- make
//	lockbox doctor
//
// It lies beside lockbox and takes the same commands.
package main

import (
	"os"

	"lockbox/cmd/internal/cli"
	"lockbox/runner"
	"lockbox/runner/engine"
)

// doctor asks the engine.
var _ cli.Diagnostic = (*engine.Engine)(nil)

func main() {
	os.Exit(cli.Main(os.Args[1:], engine.New(runner.RunDir()), cli.Std()))
}
