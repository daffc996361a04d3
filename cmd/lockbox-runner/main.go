// Command lockbox-runner is lockbox with cgroups and BPF linked in. The thin
// lockbox becomes it, with the same arguments, where a run needs a limit or the
// egress programs, and for doctor:
//
//	lockbox run --memory 512MiB --pids 64 -- make
//	lockbox doctor
//
// It lies beside lockbox and takes the same commands. `lockbox-runner serve` is
// the service that gives the runs of every user a cgroup (package broker).
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
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		os.Exit(serve(os.Args[2:], os.Stderr))
	}
	os.Exit(cli.Main(os.Args[1:], engine.New(runner.RunDir()), cli.Std()))
}
