package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
)

// Features are the names that --weaker takes, each a promise of the profile.
var Features = []string{"metadata", "unix", "processes", "tmp", "memory", "pids", "cpu", "carve-outs"}

// Compile chooses for each promise of the profile the first mechanism that this
// host has, and lists the steps. It is pure given the host. A promise that no
// mechanism keeps is an *UnsupportedError, a rule that cannot be kept anywhere a
// *CannotEnforceError.
func Compile(s *profiles.Sealed, h *Host, o Options) (*Plan, error) {
	prof := s.Profile()
	p := &Plan{host: h, opts: o, abi: h.LandlockABI, limits: prof.Limits}
	for _, l := range []string{"files", "syscalls", "egress", "unix", "limits", "processes", "env", "fds"} {
		p.Layers = append(p.Layers, Layer{Layer: l, Asked: true})
	}
	if err := p.foundation(); err != nil {
		return nil, err
	}
	lay, err := newLayout(s.Rules(), s.Pins(), h.FS, layoutOptions{tty: o.TTY, term: o.Terminal, unix: prof.Net.Unix, hosts: o.Hosts != nil, links: o.Links})
	if err != nil {
		return nil, err
	}
	p.layout = lay
	p.Watches = lay.watches
	p.Notes = append(p.Notes, lay.notes...)
	if err := p.chooseNetwork(prof); err != nil {
		return nil, err
	}
	if err := p.chooseAbstract(); err != nil {
		return nil, err
	}
	if err := p.chooseLimits(); err != nil {
		return nil, err
	}
	if err := p.chooseProcesses(); err != nil {
		return nil, err
	}
	p.chooseFiles()
	p.chooseStart()
	if err := p.listSteps(prof); err != nil {
		return nil, err
	}
	return p, nil
}

// foundation checks what no promise can do without.
func (p *Plan) foundation() error {
	h := p.host
	if h.LandlockABI < 1 {
		return &UnsupportedError{Feature: "files", Need: "Landlock (Linux 5.13)", Have: "kernel " + h.Kernel + " without it", Hint: "boot with lsm=landlock,… or a newer kernel"}
	}
	if !h.Seccomp {
		return &UnsupportedError{Feature: "syscalls", Need: "seccomp filters", Have: "kernel " + h.Kernel + " without them", Hint: "use a kernel with CONFIG_SECCOMP_FILTER"}
	}
	if !h.atLeast(5, 12) {
		return &UnsupportedError{Feature: "metadata", Need: "mount_setattr (Linux 5.12)", Have: "kernel " + h.Kernel, Hint: "use a newer kernel"}
	}
	if !h.Admin && h.UserNS != "" {
		return p.withoutNamespaces()
	}
	p.mounts = true
	p.userNS = !h.Admin
	return nil
}

// withoutNamespaces is the host where an ordinary user may make no user
// namespace: what only a mount namespace keeps has to be given up by name.
func (p *Plan) withoutNamespaces() error {
	need := []string{"metadata", "unix", "processes", "tmp", "carve-outs"}
	for _, f := range need {
		if f == "unix" && p.abi >= 9 {
			continue
		}
		if !p.opts.Weaker[f] {
			return &UnsupportedError{Feature: f, Need: "a mount namespace, so root or user namespaces", Have: p.host.UserNS,
				Hint: "allow user namespaces (see `lockbox doctor`), or accept less with " + weakerFlags(need, p.opts.Weaker)}
		}
		p.Weaker = append(p.Weaker, f)
	}
	return nil
}

func weakerFlags(need []string, given map[string]bool) string {
	var out []string
	for _, f := range need {
		if !given[f] {
			out = append(out, "--weaker "+f)
		}
	}
	return strings.Join(out, " ")
}

func (p *Plan) chooseNetwork(prof *profiles.Profile) error {
	l := p.layer("egress")
	switch prof.Net.Mode {
	case profiles.NetNone:
		if p.mounts {
			p.netNS = true
			l.By = "empty network namespace"
			l.Note = "a connect answers ENETUNREACH and is not counted"
		} else {
			l.By = "seccomp: no inet family"
			l.Note = "socket() answers EPERM and is not counted"
		}
	case profiles.NetDirect:
		if !p.host.Admin && !p.host.Broker {
			return &UnsupportedError{Feature: "net direct", Need: "the egress programs, which only root may load", Have: "an ordinary user",
				Hint: "start the service (sudo lockbox-runner serve), run it as root, or use `--net none`"}
		}
		p.NeedsSlot, p.NeedsEgress = true, true
		l.By = "cgroup programs"
	case profiles.NetGate:
		return &UnsupportedError{Feature: "net gate", Need: "lockbox-gate", Have: "a build without it", Hint: "use `--net none`, or `--net direct` with `--allow HOST:PORT` as root, until the gate comes"}
	default:
		return fmt.Errorf("BUG: network mode %d", prof.Net.Mode)
	}
	return nil
}

// chooseAbstract: abstract sockets have no path, so the run's tree cannot close
// them. Landlock's scope does, else a network namespace, else connect_unix.
func (p *Plan) chooseAbstract() error {
	if p.abi >= 6 || p.netNS || p.NeedsEgress && p.host.atLeast(6, 7) {
		return nil
	}
	if !p.opts.Weaker["unix"] {
		return &UnsupportedError{Feature: "unix", Need: "Landlock scopes (Linux 6.12), a network namespace, or connect_unix programs (6.7)",
			Have: "kernel " + p.host.Kernel + " and the host's network namespace", Hint: "use --net none, or accept that abstract sockets can be reached with --weaker unix"}
	}
	if !slices.Contains(p.Weaker, "unix") {
		p.Weaker = append(p.Weaker, "unix")
	}
	return nil
}

func (p *Plan) chooseLimits() error {
	l := p.layer("limits")
	lim := p.limits
	l.Asked = lim.Memory != 0 || lim.Pids != 0 || lim.CPU != 0 || lim.Wall != 0 || lim.Output != 0 || lim.Files != 0 || lim.FileSize != 0
	if !l.Asked {
		return nil
	}
	var by []string
	if lim.Memory != 0 || lim.Pids != 0 || lim.CPU != 0 {
		if p.host.Admin || p.host.Delegated || p.host.Broker {
			p.NeedsSlot = true
			by = append(by, "cgroup")
		} else {
			if lim.Memory != 0 {
				by = append(by, "RLIMIT_DATA")
				l.Note = "memory is limited per process, not for the run"
			}
			if lim.Pids != 0 {
				if !p.userNS {
					if !p.opts.Weaker["pids"] {
						return &UnsupportedError{Feature: "pids", Need: "a cgroup or a user namespace", Have: p.host.UserNS, Hint: "--weaker pids"}
					}
					p.Weaker = append(p.Weaker, "pids")
				} else {
					by = append(by, "RLIMIT_NPROC in the user namespace")
				}
			}
			if lim.CPU != 0 {
				if !p.opts.Weaker["cpu"] {
					return &UnsupportedError{Feature: "cpu", Need: "a cgroup that the caller may write to", Have: "none", Hint: "run as root, in a delegated cgroup (systemd-run --user --scope -p Delegate=yes …), or accept less with --weaker cpu"}
				}
				p.Weaker = append(p.Weaker, "cpu")
			}
		}
	}
	if lim.Wall != 0 || lim.Output != 0 {
		by = append(by, "supervisor")
	}
	if lim.Files != 0 || lim.FileSize != 0 {
		by = append(by, "rlimits")
	}
	l.By = strings.Join(by, ", ")
	return nil
}

// chooseProcesses: signals, ptrace and /proc of others closed, abstract sockets too.
func (p *Plan) chooseProcesses() error {
	l := p.layer("processes")
	o := p.opts
	attended := o.Attended || p.userNS || p.NeedsSlot || p.NeedsEgress || p.limits.Wall != 0 || p.limits.Output != 0 || len(p.Watches) > 0
	switch {
	case !p.mounts:
		l.By = "landlock:" + fmt.Sprint(p.abi)
		if p.abi < 6 {
			l.By = ""
		}
		l.Note = "/proc of other processes stays readable (--weaker processes)"
	case p.host.Admin && p.abi >= 6 && !attended:
		l.By = fmt.Sprintf("landlock:%d scopes+ptrace, hidepid proc", p.abi)
	default:
		// A supervised run always has a pid namespace: its init dies with the
		// supervisor, and with it every process of the run.
		p.pidNS = true
		l.By = "pid namespace with its own proc and init"
		if p.abi >= 6 {
			l.By += fmt.Sprintf(", landlock:%d scopes", p.abi)
		}
	}
	return nil
}

func (p *Plan) chooseFiles() {
	f := p.layer("files")
	f.By = fmt.Sprintf("landlock:%d", p.abi)
	u := p.layer("unix")
	if p.mounts {
		f.By += "+mounts"
		u.By = "allow-list root"
	}
	switch {
	case p.abi >= 9:
		u.By = strings.TrimPrefix(fmt.Sprintf("landlock:%d resolve_unix, %s", p.abi, u.By), ", ")
	case p.mounts:
		u.Note = "sockets that others put inside a granted directory can be reached"
	default:
		u.Note = "path sockets can be reached (--weaker unix)"
	}
	switch {
	case p.abi >= 6:
		u.By += "; abstract: landlock scope"
	case p.netNS:
		u.By += "; abstract: network namespace"
	case p.NeedsEgress && p.host.atLeast(6, 7):
		u.By += "; abstract: connect_unix"
	default:
		u.Note = join(u.Note, "abstract sockets can be reached (--weaker unix)")
	}
	p.layer("syscalls").By = "seccomp"
	e := p.layer("env")
	e.By = fmt.Sprintf("execve with %d variables", len(p.opts.Env))
	p.layer("fds").By = "close_range"
}

// chooseStart decides between exec in place and a child, and which namespaces.
func (p *Plan) chooseStart() {
	p.newSession = !p.opts.TTY
	if p.mounts {
		p.namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	}
	if p.userNS {
		p.namespaces |= unix.CLONE_NEWUSER
	}
	if p.pidNS {
		p.namespaces |= unix.CLONE_NEWPID
	}
	if p.netNS {
		p.namespaces |= unix.CLONE_NEWNET
	}
	p.InPlace = !p.opts.Attended && p.mounts && !p.userNS && !p.pidNS && !p.NeedsSlot && !p.NeedsEgress && p.limits.Wall == 0 && p.limits.Output == 0 && len(p.Watches) == 0
	if p.InPlace && p.newSession {
		// setsid needs a process that leads no group; without a controlling
		// terminal there is nothing to leave.
		switch {
		case !p.host.TTY:
			p.newSession = false
		case p.host.Leader:
			p.InPlace = false
			p.pidNS = p.mounts
			if p.pidNS {
				p.namespaces |= unix.CLONE_NEWPID
				p.layer("processes").By = strings.TrimSuffix(fmt.Sprintf("pid namespace with its own proc and init, landlock:%d scopes", p.abi), ", ")
			}
		}
	}
	if p.InPlace && p.opts.TmpDir == "" {
		p.Notes = append(p.Notes, "/tmp is a tmpfs of a bounded size: nobody is there to remove a directory on disk")
	}
}

func (p *Plan) namespaceNames() string {
	var out []string
	for _, n := range []struct {
		flag uintptr
		name string
	}{{unix.CLONE_NEWUSER, "user"}, {unix.CLONE_NEWNS, "mount"}, {unix.CLONE_NEWPID, "pid"}, {unix.CLONE_NEWNET, "net"}, {unix.CLONE_NEWIPC, "ipc"}} {
		if p.namespaces&n.flag != 0 {
			out = append(out, n.name)
		}
	}
	return strings.Join(out, " ")
}

// rel is p as a path relative to the run's root.
func rel(p string) string {
	if p == "/" {
		return "."
	}
	return strings.TrimPrefix(path.Clean(p), "/")
}
