package sandbox

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"lockbox/profiles"
)

// fakeFS is a host's file system as a map: path → "d" directory, "f" file, "s"
// socket, "c" device, "->TARGET" symlink. Parents exist by themselves.
type fakeFS map[string]string

func (f fakeFS) kind(p string) string {
	if k, ok := f[p]; ok {
		return k
	}
	for q := range f {
		if strings.HasPrefix(q, strings.TrimSuffix(p, "/")+"/") {
			return "d"
		}
	}
	return ""
}

func (f fakeFS) Lstat(p string) (fs.FileMode, error) {
	k := f.kind(p)
	switch {
	case p == "/" || k == "d":
		return fs.ModeDir | 0o755, nil
	case k == "f":
		return 0o644, nil
	case k == "s":
		return fs.ModeSocket | 0o755, nil
	case k == "c":
		return fs.ModeDevice | fs.ModeCharDevice | 0o666, nil
	case strings.HasPrefix(k, "->"):
		return fs.ModeSymlink | 0o777, nil
	}
	return 0, &fs.PathError{Op: "lstat", Path: p, Err: fs.ErrNotExist}
}

func (f fakeFS) Readlink(p string) (string, error) {
	return strings.TrimPrefix(f[p], "->"), nil
}

func (f fakeFS) ReadDir(p string) ([]string, error) {
	if _, err := f.Lstat(p); err != nil {
		return nil, err
	}
	var names []string
	for q := range f {
		rest, ok := strings.CutPrefix(q, strings.TrimSuffix(p, "/")+"/")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, "/")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// someHost is a small distribution with one user.
func someHost() fakeFS {
	f := fakeFS{
		"/bin": "->usr/bin", "/sbin": "->usr/sbin", "/lib": "->usr/lib", "/lib64": "->usr/lib64",
		"/usr/bin/true": "f", "/usr/sbin/x": "f", "/usr/lib/libc.so": "f", "/usr/lib64/ld.so": "f",
		"/etc/passwd": "f", "/etc/group": "f", "/etc/shadow": "f", "/etc/hosts": "f", "/etc/localtime": "->/usr/share/zoneinfo/UTC",
		"/usr/share/zoneinfo/UTC": "f", "/etc/resolv.conf": "->../run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/stub-resolv.conf": "f",
		"/etc/ssl/certs/ca.pem": "f", "/etc/ssl/private/key.pem": "f", "/etc/ssl/openssl.cnf": "f",
		"/home/u/.ssh/id": "f", "/home/u/.gitconfig": "f", "/home/u/notes": "f", "/home/u/.aws/credentials": "f",
		"/home/u/src/app/.git/hooks/x": "f", "/home/u/src/app/.git/config": "f", "/home/u/src/app/main.go": "f", "/home/u/src/app/secrets/key": "f",
		"/run/agent.sock": "s", "/tmp": "d", "/var/tmp": "d", "/proc": "d", "/dev/shm": "d", "/dev/pts": "d", "/sys/fs/cgroup": "d", "/sys/fs/bpf": "d",
	}
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx"} {
		f["/dev/"+d] = "c"
	}
	return f
}

// user and root are hosts of today.
func fakeUser() *Host {
	return &Host{Kernel: "6.12.0", Major: 6, Minor: 12, LandlockABI: 6, Seccomp: true, UID: 1000, GID: 1000, LastCap: 40, PID: 100, PPID: 99, FS: someHost()}
}

func fakeRoot() *Host {
	h := fakeUser()
	h.UID, h.GID, h.Admin = 0, 0, true
	return h
}

func fakeExpand() profiles.Expand {
	h := "/home/u"
	return profiles.Expand{Home: h, Workspace: h + "/src/app", TmpDir: "/tmp", UID: 1000, XDG: map[string]string{
		"XDG_CONFIG_HOME": path.Join(h, ".config"), "XDG_STATE_HOME": path.Join(h, ".local/state"),
		"XDG_CACHE_HOME": path.Join(h, ".cache"), "XDG_DATA_HOME": path.Join(h, ".local/share")}}
}

// loadPreset loads embedded profiles for the fake host's user.
func loadPreset(names ...string) (*profiles.Profile, error) {
	return profiles.Load(names, func(n string) (*profiles.Document, error) {
		if d, ok := profiles.Preset(n); ok {
			return d, nil
		}
		return nil, fmt.Errorf("no preset %q", n)
	}, fakeExpand())
}

// compileFake compiles a profile for a fake host.
func compileFake(p *profiles.Profile, ex profiles.Expand, h *Host, o Options) (*Plan, error) {
	s, err := Seal(p, ex, profiles.Terminal, h.FS)
	if err != nil {
		return nil, err
	}
	if o.Path == "" {
		o.Path, o.Argv = "/usr/bin/true", []string{"true"}
	}
	if o.Dir == "" {
		o.Dir = "/"
	}
	o.Links = s.Links
	return Compile(s.Sealed, h, o)
}
