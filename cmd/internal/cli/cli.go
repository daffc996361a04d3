// Package cli is the command line of lockbox: flags, messages, hints and exit
// codes. It decides nothing. Policy comes from package profiles, enforcement
// from package sandbox, and the life of a run from package runner.
//
//	os.Exit(cli.Main(os.Args[1:], nil, cli.Std()))
//
// One table (table.go) describes every command and flag; parsing, help and
// completion are made from it.
//
// Two programs use this package. cmd/lockbox is thin, so that it starts like
// an empty program, and passes no engine. cmd/lockbox-runner links cgroups and
// BPF and passes its engine; the thin one replaces itself with it where a run
// needs those.
//
// # What it does not restrict
//
// Nothing: it runs as the person who typed the command, with all that they
// may do, until the runner has started the confined program.
package cli

import (
	"os"

	"lockbox/runner"
)

// Exit codes that lockbox itself gives. The command's own code passes
// through; 124 and 128+N come from the receipt.
const (
	exitOK       = 0
	exitNo       = 1   // the answer is no: a check failed, nothing found, denied
	exitUsage    = 2   // usage, or an error of our own (every command but run)
	exitAsk      = 3   // explain: somebody would be asked
	exitLockbox  = 125 // run: lockbox itself failed, the command was not started
	exitNotExec  = 126 // run: found, but cannot be executed
	exitNotFound = 127 // run: not found
)

// Streams are the three standard streams. The caller keeps ownership.
type Streams struct {
	In, Out, Err *os.File
}

// Std returns the standard streams of the process.
func Std() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// app is one invocation: its streams, engine and parsed command line.
type app struct {
	Streams
	engine runner.Engine // nil in the thin binary
	argv   []string      // the arguments as typed, for the exec of lockbox-runner
	cmd    *command
	opts   options
	args   []string // positional arguments; for run: the command and its arguments
	masks  []string // secret values, never printed
}

// Main runs one command and returns the exit code of the process. The engine
// is nil in the thin binary. Main may not return: a run can replace the
// process.
func Main(args []string, engine runner.Engine, std Streams) int {
	deepen()
	findHome()
	a := &app{Streams: std, engine: engine, argv: args}
	cmd, rest, err := findCommand(args)
	if err != nil {
		return a.fail(err)
	}
	a.cmd = cmd
	a.args, err = parse(cmd, rest, &a.opts)
	if err != nil {
		return a.fail(err)
	}
	if a.opts.help {
		a.print(helpText(cmd))
		return exitOK
	}
	if err := checkArgs(cmd, a.args); err != nil {
		return a.fail(err)
	}
	return cmd.code()(a)
}
