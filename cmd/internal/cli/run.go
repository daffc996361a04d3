package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/sandbox"
)

// run is `lockbox run`: profiles, flags, seal, plan; then in place where
// nobody has to look after anything, else supervised.
func (a *app) run() int {
	p, err := loadPolicyWith(&a.opts, func() error {
		if a.opts.plan {
			return nil
		}
		return makeStateDirs()
	})
	if err != nil {
		return a.fail(err)
	}
	profile := p.sealed.Profile()
	want := environment{pass: profile.Env.Pass, set: profile.Env.Set}
	env := buildEnv(want, os.Environ(), p.id)

	dir, err := a.startDir(p)
	if err != nil {
		return a.fail(err)
	}
	path, err := lookPath(a.args[0], env, p)
	if err != nil {
		return a.fail(err)
	}
	spec := runner.Spec{
		Sealed:  p.sealed,
		Argv:    a.args,
		Path:    path,
		Dir:     dir,
		Env:     env,
		Tty:     profile.Process.TTY,
		Weaker:  a.opts.weaker,
		Receipt: a.opts.receipt != "",
		Stdin:   a.In,
		Stdout:  a.Out,
		Stderr:  a.Err,
	}
	service, err := a.service(profile)
	if err != nil {
		return a.fail(err)
	}
	if service != nil {
		defer service.Close()
		spec.Broker = true
	}
	r, err := runner.Prepare(spec)
	if err != nil {
		return a.fail(err)
	}
	if a.opts.plan {
		a.notes(p)
		a.print(r.Plan().String())
		return exitOK
	}
	if r.NeedsEngine() && a.engine == nil && service == nil {
		return a.fail(execRunner(a.argv))
	}
	// Secrets are read as late as this, and once: a file may be a pipe, and
	// lockbox-runner has to find it unread.
	if len(profile.Env.Secret) > 0 {
		if want.secret, err = resolveSecrets(profile.Env.Secret, p.names, p.id); err != nil {
			return a.fail(err)
		}
		a.masks = maskValues(want.secret)
		spec.Masks = a.masks
		spec.Env = buildEnv(want, os.Environ(), p.id)
		if r, err = runner.Prepare(spec); err != nil {
			return a.fail(err)
		}
	}
	a.notes(p)
	if !spec.Receipt && r.InPlace() {
		return a.fail(r.Exec())
	}
	if service != nil {
		service.Profile, service.Argv = profile.Name, mask(spec.Argv, spec.Masks)
		return a.supervise(r, p, service)
	}
	return a.supervise(r, p, a.engine)
}

// supervise starts the run, waits, and reports.
func (a *app) supervise(r *runner.Run, p *policy, engine runner.Engine) int {
	out, err := openReceipt(a.opts.receipt, a.Out)
	if err != nil {
		return a.fail(err)
	}
	receipt, err := r.Supervise(context.Background(), engine)
	if receipt == nil {
		out.discard()
		if err == nil {
			err = errors.New("BUG: the run ended without a receipt")
		}
		return a.fail(err)
	}
	if err != nil { // the run took place, but something after it went wrong
		a.say(err.Error())
	}
	a.report(receipt, p)
	if err := out.write(receipt); err != nil {
		a.say(fmt.Sprintf("writing the receipt: %v", err))
		return exitLockbox
	}
	return receipt.ExitCode()
}

// makeStateDirs makes the folders of lockbox's own state before the profile is
// sealed: an invariant on a folder that only comes into being while the run
// starts would not be in its plan.
func makeStateDirs() error {
	shared := fs.FileMode(0o700)
	if os.Geteuid() == 0 { // its sockets are for other users too
		shared = 0o755
	}
	for _, dir := range []struct {
		path string
		mode fs.FileMode
	}{{runner.Home(), 0o700}, {runner.RunDir(), shared}} {
		if dir.path == "" {
			continue
		}
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return fmt.Errorf("state folder: %w", err)
		}
	}
	return nil
}

// notes says what of the profile does not hold as it was written.
func (a *app) notes(p *policy) {
	for _, note := range p.sealed.Notes() {
		a.say("note: " + note)
	}
}

// startDir is where the command starts. A directory that was asked for has to
// be granted; without one the run starts in the current directory if it is
// granted, else in /.
func (a *app) startDir(p *policy) (string, error) {
	if p.visible(p.dir) {
		return p.dir, nil
	}
	if a.opts.workdir != "" {
		return "", withHint(fmt.Errorf("--workdir %q is not granted by the profile", p.dir), "add --ro %s or --rw %s", p.dir, p.dir)
	}
	if isTerminal(a.In) {
		a.say(fmt.Sprintf("note: %q is not granted; the command starts in /", p.dir))
		a.hint("add --ro . or --rw ., or a profile that grants $WORKSPACE, as -p shell")
	}
	return "/", nil
}

// privateDirs are made anew for every run: what the host has there is not
// inside, apart from what a rule names.
var privateDirs = []string{"/tmp", "/var/tmp", "/dev/shm"}

// visible reports whether a directory of the host is there inside the run:
// granted, or bare above something granted.
func (p *policy) visible(dir string) bool {
	if dir == "/" {
		return true
	}
	for _, r := range p.sealed.Rules() {
		if r.Access != profiles.None && within(r.Path, dir) && r.Path != dir && !r.Optional {
			return true
		}
	}
	if !p.sealed.Decide(profiles.OpRead, profiles.Object{Path: dir}).Allow {
		return false
	}
	return p.hiddenBy(dir) == ""
}

// hiddenBy returns the private directory in whose place the host's path is not
// to be seen, or "".
func (p *policy) hiddenBy(path string) string {
	for _, private := range privateDirs {
		if path != private && within(path, private) && !p.namedBelow(private, path) {
			return private
		}
	}
	return ""
}

// namedBelow reports whether a rule below dir, at or above path, opens it.
func (p *policy) namedBelow(dir, path string) bool {
	for _, r := range p.sealed.Rules() {
		if r.Access != profiles.None && r.Path != dir && within(r.Path, dir) && within(path, r.Path) {
			return true
		}
	}
	return false
}

// runnerName is the program that links the heavy parts.
const runnerName = "lockbox-runner"

// runnerPath is beside this executable; PATH is not searched, so that nobody
// can put another one in its place.
func runnerPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), runnerName)
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		if err == nil {
			err = errors.New("it is not a regular file")
		}
		return "", withHint(fmt.Errorf("this needs %s beside %q: %w", runnerName, self, err), "`make install` puts both in one folder")
	}
	return path, nil
}

// execRunner goes on as lockbox-runner with the same arguments. It returns
// only on failure.
func execRunner(args []string) error {
	path, err := runnerPath()
	if err != nil {
		return err
	}
	argv := append([]string{"lockbox"}, args...)
	if err := syscall.Exec(path, argv, os.Environ()); err != nil {
		return fmt.Errorf("execve %q: %w", path, err)
	}
	return errors.New("BUG: execve returned without an error")
}

// explained adds exit code and hints to an error of the runner.
func (a *app) explained(err error) error {
	if ex, ok := errors.AsType[*runner.ExecError](err); ok {
		if errors.Is(ex.Errno, fs.ErrNotExist) {
			return withCode(exitNotFound, err, a.explainHint(shellQuote(ex.Path), "x"))
		}
		return withCode(exitNotExec, err, a.explainHint(shellQuote(ex.Path), "x"))
	}
	if un, ok := errors.AsType[*sandbox.UnsupportedError](err); ok {
		return withHint(err, "%s", orElse(un.Hint, "`lockbox doctor` shows what this host can enforce"))
	}
	if cannot, ok := errors.AsType[*sandbox.CannotEnforceError](err); ok && cannot.Hint != "" {
		return withHint(err, "%s", cannot.Hint)
	}
	return err
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// explainHint is the explain command for the same profiles and flags.
func (a *app) explainHint(word, op string) string {
	words := []string{"lockbox", "explain"}
	for _, name := range a.opts.profiles {
		words = append(words, "-p", shellQuote(name))
	}
	return "`" + strings.Join(append(words, "file", word, op), " ") + "`"
}

// shellQuote makes a word that can be pasted into a shell.
func shellQuote(word string) string {
	plain := word != ""
	for _, r := range word {
		plain = plain && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:,@%", r))
	}
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
