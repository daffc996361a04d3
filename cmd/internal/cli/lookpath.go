package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
)

// lookPath finds the program of a run: argv[0] with a slash is taken from the
// working directory, any other is searched in the PATH that the run will have.
// Relative entries of PATH are passed over. The result is the path to execute:
// its directory physical, its last name as typed where the run can see that
// name (busybox, python -m venv and others look at it), else physical too.
func lookPath(name string, env []string, p *policy) (string, error) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.dir, path)
		}
		return candidate(name, path, p)
	}
	var denied error
	for _, dir := range filepath.SplitList(getenv(env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path, err := candidate(name, filepath.Join(dir, name), p)
		if err == nil {
			return path, nil
		}
		if denied == nil && !errors.Is(err, fs.ErrNotExist) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", withCode(exitNotFound, fmt.Errorf("%s: command not found in PATH of the run", quoted(name)),
		fmt.Sprintf("PATH is %s", getenv(env, "PATH")))
}

// candidate checks one path: that it is there, a program, and allowed.
func candidate(name, path string, p *policy) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		var st os.FileInfo
		st, err = os.Stat(real)
		if err == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s: it is not a regular file", quoted(path))
			return "", withCode(exitNotExec, err)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return "", withCode(exitNotFound, fmt.Errorf("%s: %w", quoted(name), syscall.ENOENT))
	case err != nil:
		return "", withCode(exitNotExec, fmt.Errorf("%s: %w", quoted(name), err))
	}
	if d := p.sealed.Decide(profiles.OpExec, profiles.Object{Path: real}); !d.Allow {
		return "", withCode(exitNotExec, fmt.Errorf("%s: the profile does not allow to execute %q (%s)", quoted(name), real, d.Rule), changeHints(d, real)...)
	}
	if dir := p.hiddenBy(real); dir != "" {
		return "", withCode(exitNotExec, fmt.Errorf("%s: %q is the host's; the run has a %s of its own", quoted(name), real, dir), "--rx "+shellQuote(real))
	}
	if err := unix.Access(real, unix.X_OK); err != nil {
		return "", withCode(exitNotExec, fmt.Errorf("%s: %q is not executable: %w", quoted(name), real, err))
	}
	return execPath(path, real, p), nil
}

// execPath keeps the last name of the typed path if every symlink from there to
// the program can be seen inside the run.
func execPath(path, real string, p *policy) string {
	for hop := path; ; {
		dir, err := filepath.EvalSymlinks(filepath.Dir(hop))
		if err != nil {
			return real
		}
		at := filepath.Join(dir, filepath.Base(hop))
		if at == real {
			break
		}
		if !p.sealed.Decide(profiles.OpRead, profiles.Object{Path: at}).Allow {
			return real
		}
		to, err := os.Readlink(at)
		if err != nil {
			return real
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		hop = to
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return real
	}
	return filepath.Join(dir, filepath.Base(path))
}

// quoted leaves plain names alone.
func quoted(name string) string {
	for _, r := range name {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune(`"'\`, r) {
			return fmt.Sprintf("%q", name)
		}
	}
	return name
}

// changeHints turn a decision's changes into hints, the flag first.
func changeHints(d profiles.Decision, path string) []string {
	hints := append([]string{}, d.Change...)
	if len(hints) == 0 {
		hints = append(hints, fmt.Sprintf("`lockbox explain file %s x`", path))
	}
	return hints
}
