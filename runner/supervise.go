package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"lockbox/profiles"
	"lockbox/sandbox"
)

// Supervise starts the run and stays until it has ended. A nil receipt means
// that nothing ran. An error beside a receipt says what could not be cleaned up
// or counted.
func (r *Run) Supervise(ctx context.Context, e Engine) (*Receipt, error) {
	if r.NeedsEngine() && e == nil {
		return nil, errors.New("BUG: this plan needs an engine")
	}
	// The run dies with the thread that started it (PR_SET_PDEATHSIG).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	id, err := NewID()
	if err != nil {
		return nil, err
	}
	sweepWorkdirs()
	if r.NeedsEngine() {
		if _, err := e.Sweep(); err != nil {
			return nil, fmt.Errorf("remove what an earlier run left: %w", err)
		}
	}
	w, err := newWorkdir(id)
	if err != nil {
		return nil, err
	}
	receipt, err := r.supervise(ctx, e, id, w)
	return receipt, errors.Join(err, w.remove())
}

func (r *Run) supervise(ctx context.Context, e Engine, id string, w *workdir) (_ *Receipt, err error) {
	sealed, hosts, err := r.pinHosts(e)
	if err != nil {
		return nil, err
	}
	if err := r.complete(sealed, hosts, w); err != nil {
		return nil, err
	}
	hold, err := r.hold(e, id, sealed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, hold.Close()) }()

	out, err := r.output()
	if err != nil {
		return nil, err
	}
	defer out.close()

	receipt := r.receipt(id)
	sig := listen(r.spec.Tty)
	defer sig.stop()
	term := terminal(r.spec.Tty)
	watch, err := startWatch(r.plan.Watches)
	if err != nil {
		return nil, err
	}
	defer watch.close()

	so := sandbox.StartOptions{Stdin: r.spec.Stdin, Stdout: out.stdout, Stderr: out.stderr, CgroupFD: hold.FD(), TaskFDs: hold.TaskFDs(), CanaryPath: canary(), CanaryAbstract: abstractCanary(id), StopAt: r.spec.StopAt}
	if hold.Moves() {
		so.Gate = func(pidfd int) error { return hold.Adopt(pidfd, 0) }
	}
	proc, err := r.plan.Start(so)
	if err != nil {
		return nil, r.execError(err)
	}
	end := &ending{kill: func() { hold.Kill(); proc.Kill() }}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { r.attend(ctx, proc, sig, watch, out, end, done) })
	out.started(end)

	x, err := proc.Wait()
	close(done)
	wg.Wait()
	hold.Kill() // whatever outlived the init, on hosts where there is none
	out.drain()
	term.restore()
	if err != nil {
		return nil, err
	}
	if x.ExecErrno != 0 {
		return nil, &ExecError{Path: r.spec.Path, Errno: x.ExecErrno}
	}
	if err = r.account(receipt, hold, x, end); err == nil {
		err = hold.Finish(receipt)
	}
	return receipt, err
}

// account completes the receipt.
func (r *Run) account(receipt *Receipt, hold Hold, x sandbox.Exit, end *ending) error {
	c, err := hold.Counted()
	receipt.Usage = Usage{CPUms: c.CPUms, MaxRSS: c.MaxRSS, PidsPeak: c.PidsPeak}
	if c.PidsPeak > 0 && r.hasInit() {
		receipt.Usage.PidsPeak--
	}
	receipt.Denials = append(receipt.Denials, c.Denials...)
	receipt.DenialsLost = c.Lost
	receipt.Layers = r.plan.Layers
	receipt.Notes = append(receipt.Notes, r.plan.Notes...)
	cause, why := end.cause()
	if why != "" {
		receipt.Notes = append([]string{why}, receipt.Notes...)
	}
	if cause == "" {
		cause = c.Cause
		if cause == "killed" {
			receipt.Notes = append([]string{"lockbox kill"}, receipt.Notes...)
		}
	}
	if cause != "" && cause != "killed" {
		receipt.Denials = append(receipt.Denials, limitDenial(cause, r))
	}
	if err != nil {
		receipt.Notes = append(receipt.Notes, notCounted)
	}
	receipt.Notes = append(receipt.Notes, filesNotObserved)
	receipt.ended(x, cause)
	for i := range receipt.Layers {
		if l := &receipt.Layers[i]; l.Layer == "limits" && l.Asked && hold.By() != "" {
			l.By = strings.Replace(l.By, "cgroup", hold.By(), 1)
		}
	}
	if c.Egress && !r.plan.NeedsEgress {
		// The programs were there for another run: then they count for this one too.
		for i := range receipt.Layers {
			if l := &receipt.Layers[i]; l.Layer == "egress" {
				l.By, l.Note = l.By+", cgroup programs", ""
			}
		}
	}
	if err != nil {
		return fmt.Errorf("read the run's counters: %w", err)
	}
	return nil
}

// notCounted is what a receipt says whose counters were lost, with a service that
// went away or a cgroup that somebody removed.
const notCounted = "the run's counters could not be read: its limits' and its network's denials are not known, nor all that it used"

// filesNotObserved is why a receipt lists no file denials: Landlock reports to
// audit only, which costs every process of the host for good, and tracing costs
// every system call. (From Linux 6.15 a BPF program on landlock_log_denial could
// see them; lockbox has none.)
const filesNotObserved = "denied files and system calls are not listed: lockbox observes them nowhere without a standing cost; `lockbox explain` answers for any path"

func limitDenial(cause string, r *Run) Denial {
	l := r.limits()
	d := Denial{Kind: "limit", Op: cause, Count: 1, By: "cgroup", Rule: "limits." + cause}
	switch cause {
	case "timeout":
		d.Op, d.By, d.Rule, d.Target = "wall", "supervisor", "limits.wall", l.Wall.String()
	case "output":
		d.By, d.Target = "supervisor", fmt.Sprint(l.Output)
	case "memory":
		d.Target = fmt.Sprint(l.Memory)
	case "pids":
		d.Target = fmt.Sprint(l.Pids)
	}
	d.Hint = "raise it with --" + map[string]string{"timeout": "timeout", "output": "output-limit", "memory": "memory", "pids": "pids"}[cause]
	return d
}

// pinHosts resolves the names of a direct profile once, for the rules and for
// the run's own /etc/hosts.
func (r *Run) pinHosts(e Engine) (*sandbox.Sealed, []byte, error) {
	if !r.plan.NeedsEgress {
		return r.spec.Sealed, nil, nil
	}
	hosts, err := e.Resolve(r.spec.Sealed.Sealed)
	if err != nil {
		return nil, nil, err
	}
	if len(hosts) == 0 {
		return r.spec.Sealed, nil, nil
	}
	pinned := *r.spec.Sealed
	pinned.Sealed = pinned.WithHosts(hosts)
	return &pinned, hostsFile(hosts), nil
}

func (r *Run) hold(e Engine, id string, s *sandbox.Sealed) (Hold, error) {
	if !r.NeedsEngine() {
		return noHold{}, nil
	}
	var egress *Egress
	if r.plan.NeedsEgress {
		p := s.Profile()
		egress = &Egress{Rules: s.Egress(), Listen: p.Net.Listen, Unix: p.Net.Unix, Canaries: []string{sandbox.EgressCanary, canary(), "@" + abstractCanary(id)}}
		for _, rule := range s.Rules() {
			if rule.Access.Has(profiles.Write) {
				egress.Writable = append(egress.Writable, rule.Path)
			}
		}
	}
	l := r.limits()
	if l.Pids != 0 && r.hasInit() {
		l.Pids++ // the init is ours, not the command's
	}
	return e.Hold(id, l, egress)
}

// hasInit reports whether the run's first process is our init: a supervised run
// has a pid namespace wherever it has namespaces.
func (r *Run) hasInit() bool { return r.host.Admin || r.host.UserNS == "" }

// execError tells a command that cannot be executed from a sandbox that cannot
// be built.
func (r *Run) execError(err error) error {
	if se, ok := errors.AsType[*stepError](err); ok && se.Step.Call == "execve" && !se.Canary {
		return &ExecError{Path: r.spec.Path, Errno: se.Errno}
	}
	return err
}

// noHold is a run without a cgroup.
type noHold struct{}

func (noHold) FD() int                   { return -1 }
func (noHold) TaskFDs() []int            { return nil }
func (noHold) Moves() bool               { return false }
func (noHold) Adopt(int, int) error      { return nil }
func (noHold) Finish(*Receipt) error     { return nil }
func (noHold) Kill() error               { return nil }
func (noHold) Counted() (Counted, error) { return Counted{CPUms: -1, MaxRSS: -1, PidsPeak: -1}, nil }
func (noHold) Close() error              { return nil }
func (noHold) By() string                { return "" }

// ending is who ended a run and why; the first one counts.
type ending struct {
	mu   sync.Mutex
	what string
	why  string
	kill func()
}

// set records the cause once. It reports whether it was the first.
func (e *ending) set(cause, why string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.what != "" {
		return false
	}
	e.what, e.why = cause, why
	return true
}

func (e *ending) cause() (string, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.what, e.why
}

// end records the cause and kills every process of the run.
func (e *ending) end(cause, why string) {
	e.set(cause, why)
	e.kill()
}

// abstractCanary is the abstract socket that the run must not reach.
func abstractCanary(id string) string { return "lockbox-canary-" + id }

// complete adds to the plan what only the start knows: the directory for /tmp,
// and the pinned names, which change the tree.
func (r *Run) complete(sealed *sandbox.Sealed, hosts []byte, w *workdir) error {
	if hosts == nil && r.plan.OwnTree() && !r.plan.InPlace {
		r.plan.UseTmp(w.dir)
		return nil
	}
	o := r.options(w.dir, hosts)
	if !r.plan.OwnTree() {
		o.Env = setEnv(o.Env, "TMPDIR", filepath.Join(w.dir, "tmp"))
	}
	var err error
	r.plan, err = sandbox.Compile(sealed.Sealed, r.host, o)
	return err
}

// setEnv returns env with one variable replaced or added.
func setEnv(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+1)
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			out = append(out, v)
		}
	}
	return append(out, name+"="+value)
}
