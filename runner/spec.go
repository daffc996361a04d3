package runner

import (
	"fmt"
	"os"
	"strings"

	"lockbox/profiles"
	"lockbox/sandbox"
)

// Spec says what to run. Everything is resolved: the profile is sealed, the
// program looked up, the environment complete.
type Spec struct {
	Sealed *sandbox.Sealed
	Argv   []string // argv of the command, argv[0] as typed
	Path   string   // the program, absolute
	Dir    string   // working directory inside the run
	Env    []string // complete
	Masks  []string // secret values, masked in everything that is told
	Tty    bool     // keep the caller's session and terminal
	Weaker []string // features that may be missing (--weaker)
	// Receipt: somebody wants to know how it went, so the run is supervised.
	Receipt        bool
	Client, Sender string // empty at a terminal
	// Broker: the runner's service answers, and is the engine.
	Broker bool
	// Stdin, Stdout and Stderr become the command's; nil passes the caller's on.
	Stdin, Stdout, Stderr *os.File
	// StopAt ends the start before this step, for tests; zero means never.
	StopAt int
}

// Run is a prepared run.
type Run struct {
	spec Spec
	host *sandbox.Host
	plan *sandbox.Plan
}

// ExecError says that the command could not be executed.
type ExecError struct {
	Path  string
	Errno error
}

func (e *ExecError) Error() string { return fmt.Sprintf("execve %q: %v", e.Path, e.Errno) }
func (e *ExecError) Unwrap() error { return e.Errno }

// Prepare compiles the plan. It touches nothing. Errors are bad input, a
// *sandbox.CannotEnforceError or a *sandbox.UnsupportedError.
func Prepare(s Spec) (*Run, error) {
	host, err := sandbox.Probe()
	if err != nil {
		return nil, err
	}
	host.Delegated, host.Broker = delegated(), s.Broker
	r := &Run{spec: s, host: host}
	if err := checkWeaker(s.Weaker); err != nil {
		return nil, err
	}
	r.plan, err = sandbox.Compile(s.Sealed.Sealed, host, r.options("", nil))
	if err != nil {
		return nil, err
	}
	return r, nil
}

func checkWeaker(given []string) error {
	for _, f := range given {
		known := false
		for _, k := range sandbox.Features {
			known = known || f == k
		}
		if !known {
			return fmt.Errorf("--weaker %q: no such feature; allowed: %s", f, strings.Join(sandbox.Features, ", "))
		}
	}
	return nil
}

func (r *Run) options(tmp string, hosts []byte) sandbox.Options {
	s := r.spec
	weaker := map[string]bool{}
	for _, f := range s.Weaker {
		weaker[f] = true
	}
	term := ""
	if s.Tty {
		term = terminalPath(s.Stdin, s.Stdout, s.Stderr)
	}
	return sandbox.Options{
		Terminal: term,
		Argv:     s.Argv, Path: s.Path, Env: s.Env, Dir: s.Dir, TTY: s.Tty,
		Attended: s.Receipt || tmp != "", Weaker: weaker, TmpDir: tmp, Hosts: hosts, Links: s.Sealed.Links,
	}
}

// Plan is what would be enforced, and by which system calls.
func (r *Run) Plan() *sandbox.Plan { return r.plan }

// InPlace reports whether the calling process can become the command.
func (r *Run) InPlace() bool { return r.plan.InPlace }

// NeedsEngine reports whether Supervise needs an Engine.
func (r *Run) NeedsEngine() bool { return r.plan.NeedsSlot || r.plan.NeedsEgress }

// Exec turns the calling process into the command. It returns only on failure.
func (r *Run) Exec() error {
	err := r.plan.Exec(sandbox.StartOptions{Stdin: r.spec.Stdin, Stdout: r.spec.Stdout, Stderr: r.spec.Stderr, CanaryPath: canary()})
	return r.execError(err)
}

// limits are the profile's limits.
func (r *Run) limits() profiles.Limits { return r.spec.Sealed.Profile().Limits }
