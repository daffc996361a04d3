package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"lockbox/profiles"
	"lockbox/sandbox"
)

// policy is what the command line asks for: the sealed profile, and what it
// was made from.
type policy struct {
	sealed *sandbox.Sealed // rules on physical paths
	names  []string        // profiles as given with -p, or the default
	id     identity
	dir    string // the physical working directory
}

// defaultProfile is what a run without -p gets.
const defaultProfile = "base"

// loadPolicy reads the profiles, adds the flags and compiles the invariants
// in, in this order: nothing that is typed comes after the invariants.
func loadPolicy(o *options) (*policy, error) {
	return loadPolicyWith(o, func() error { return nil })
}

// loadPolicyWith calls ready when the input has turned out to be good, before
// paths are looked at.
func loadPolicyWith(o *options, ready func() error) (*policy, error) {
	p := &policy{names: o.profiles, id: whoAmI()}
	if len(p.names) == 0 {
		p.names = []string{defaultProfile}
	}
	var err error
	if p.dir, err = workdir(o.workdir); err != nil {
		return nil, err
	}
	ws, wsErr := workspace(p.dir, o.workdir != "", p.id)
	ex := p.id.expand(ws)
	if wsErr != nil {
		ex.Workspace = ""
	}
	profile, err := profiles.Load(p.names, lookupFor(p.names, p.id), ex)
	if err != nil {
		if wsErr != nil && p.loadsWith(ex) {
			return nil, withHint(fmt.Errorf("profile %q uses $WORKSPACE: %w", p.names[0], wsErr),
				"run it inside a project, or name one with --workdir DIR")
		}
		return nil, loadError(err)
	}
	flags, err := policyFlagsOf(o, p.id, ex)
	if err != nil {
		return nil, err
	}
	if profile, err = profile.WithFlags(flags); err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	if p.sealed, err = sandbox.Seal(profile, ex, profiles.Terminal, sandbox.OSFS{}); err != nil {
		return nil, err
	}
	return p, nil
}

// loadError drops what the loader puts before an error that already names the
// file or the profile.
func loadError(err error) error {
	if bad, ok := errors.AsType[*profiles.SyntaxError](err); ok {
		return bad
	}
	if own, ok := errors.AsType[*hinted](err); ok {
		return own
	}
	return err
}

// loadsWith reports whether the profiles would load if only there were a
// workspace, so that the workspace is what the error is about.
func (p *policy) loadsWith(ex profiles.Expand) bool {
	ex.Workspace = "/workspace"
	_, err := profiles.Load(p.names, lookupFor(p.names, p.id), ex)
	return err == nil
}

// expand says what ~ and the variables of a profile stand for. The values are
// physical where they exist, since rules hold for physical paths.
func (id identity) expand(ws string) profiles.Expand {
	xdg := id.xdg()
	for name, dir := range xdg {
		xdg[name] = id.links.resolved(dir)
	}
	home := ""
	if id.home != "" {
		home = id.links.resolved(id.home)
	}
	return profiles.Expand{
		Home:       home,
		Workspace:  ws,
		TmpDir:     "/tmp",
		XDG:        xdg,
		StateDirs:  id.withResolved(id.stateDirs()),
		ConfigDirs: id.withResolved(id.configDirs()),
		UID:        id.uid,
		Platform:   "linux",
	}
}

// withResolved adds the physical form of each path.
func (id identity) withResolved(paths []string) []string {
	out := append([]string{}, paths...)
	for _, p := range paths {
		out = append(out, id.links.resolved(p))
	}
	return unique(out)
}

// policyFlagsOf turns what was typed into values.
func policyFlagsOf(o *options, id identity, ex profiles.Expand) (profiles.Flags, error) {
	f := profiles.Flags{Env: o.env, Secret: o.secrets, TTY: o.tty, Expand: ex}
	for _, paths := range []struct {
		flag string
		in   []string
		out  *[]string
	}{
		{"--ro", o.ro, &f.RO}, {"--rw", o.rw, &f.RW}, {"--rx", o.rx, &f.RX},
		{"--deny", o.deny, &f.Deny}, {"--unix", o.unix, &f.Unix},
	} {
		for _, path := range paths.in {
			abs, err := flagPath(tilde(path, id.home))
			if err != nil {
				return f, fmt.Errorf("%s: %w", paths.flag, err)
			}
			*paths.out = append(*paths.out, abs)
		}
	}
	if o.net != "" {
		mode, err := profiles.ParseMode(o.net)
		if err != nil {
			return f, fmt.Errorf("--net: %w", err)
		}
		f.Net = &mode
	}
	f.Allow = o.allow
	for _, port := range o.listen {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return f, fmt.Errorf("--listen %q: want a port, 1 to 65535", port)
		}
		f.Listen = append(f.Listen, int(n))
	}
	return f, limitFlags(o, &f)
}

// tilde expands a leading ~, which the shell leaves alone in --ro=~/src.
func tilde(path, home string) string {
	if home != "" && (path == "~" || strings.HasPrefix(path, "~/")) {
		return home + path[1:]
	}
	return path
}

// flagPath makes a typed path absolute. Symlinks are left to the compiler,
// which follows them and makes them again inside the run, so that the path
// works as it was typed; only where ".." would step over one is it resolved
// here.
func flagPath(path string) (string, error) {
	if len(path) >= maxPath {
		return "", fmt.Errorf("path %q is %d bytes long; at most %d", cut(path, 60)+"…", len(path), maxPath-1)
	}
	if slices.Contains(strings.Split(path, "/"), "..") {
		if p, err := physical(path); err == nil {
			return p, nil
		}
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	dir, err := syscall.Getwd()
	if err != nil {
		return "", fmt.Errorf("getcwd: %w", err)
	}
	return filepath.Join(dir, path), nil
}

// maxPath is the kernel's PATH_MAX, in bytes, the final NUL included.
const maxPath = 4096
