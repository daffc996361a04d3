package sandbox

import (
	"fmt"
	"path"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/sandbox/netns"
	"lockbox/sandbox/script"
	"lockbox/sandbox/seccomp"
)

// listSteps orders the steps. The order is part of the security: namespaces and
// mounts before Landlock (which refuses every mount), identities before
// no_new_privs, seccomp last so that it may close everything above, then the
// canaries, then execve.
func (p *Plan) listSteps(prof *profiles.Profile) error {
	filter, err := p.buildFilter(prof)
	if err != nil {
		return err
	}
	p.steps = make([]planStep, 0, len(p.layout.nodes)+len(p.layout.links)+24)
	add := func(call, what string, f func(e *emitter)) {
		p.steps = append(p.steps, planStep{call, what, f})
	}
	if p.InPlace {
		if p.namespaces != 0 {
			add("unshare", "new namespaces: "+p.namespaceNames(), (*emitter).namespacesInPlace)
		}
	} else {
		add("prctl+read", "die with the supervisor", (*emitter).tieToSupervisor)
	}
	add("umask", "0 while the tree is made", func(e *emitter) {
		e.umask = e.b.NewReg()
		e.call("umask", "0", unix.SYS_UMASK, []any{0}, script.Out(e.umask))
	})
	if p.userNS {
		add("openat+write", fmt.Sprintf("id maps: %d and %d onto themselves, setgroups deny", p.host.UID, p.host.GID), (*emitter).idMaps)
	}
	if p.NeedsSlot {
		add("write", "join the v1 cgroups of the slot, where there are any", (*emitter).joinTasks)
	}
	if p.newSession {
		add("setsid", "a session of its own: no controlling terminal", func(e *emitter) {
			e.call("setsid", "", unix.SYS_SETSID, nil)
		})
	}
	if p.mounts {
		p.listMounts(add)
	} else {
		add("landlock_add_rule", "rules on the host's own paths", (*emitter).rulesWithoutMounts)
	}
	if p.netNS {
		add("socket+sendto", "loopback up", (*emitter).loopback)
	}
	add("dup3+fcntl", "standard descriptors", (*emitter).stdio)
	add("chdir", p.opts.Dir, func(e *emitter) { e.call("chdir", e.p.opts.Dir, unix.SYS_CHDIR, []any{e.p.opts.Dir}) })
	add("umask", "the caller's again", func(e *emitter) { e.call("umask", "the caller's", unix.SYS_UMASK, []any{e.umask}) })
	add("prlimit64", "resource limits", (*emitter).resourceLimits)
	add("close_range", "every descriptor above 2 closes on exec", (*emitter).closeRange)
	add("capset+prctl", "no capabilities, empty bounding set, no groups", (*emitter).drop)
	add("landlock", "no_new_privs, then the domain of this run; one denied try", func(e *emitter) { e.restrict(); e.landlockCanary() })
	add("seccomp", fmt.Sprintf("filter of %d instructions", len(filter)), func(e *emitter) {
		prog := filter.Prog()
		e.b.Keep(prog)
		e.filter = &unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
		e.seccomp()
	})
	add("canaries", "one denied try per layer, under this plan", (*emitter).canaries)
	if p.pidNS {
		add("execveat", "init of the pid namespace, which starts "+p.opts.Path, (*emitter).execInit)
	} else {
		add("execve", p.opts.Path, func(e *emitter) { e.b.Exec(e.p.opts.Path, e.p.opts.Argv, e.p.opts.Env) })
	}
	return nil
}

func (p *Plan) buildFilter(prof *profiles.Profile) (seccomp.Filter, error) {
	arch, err := seccomp.HostArch()
	if err != nil {
		return nil, &UnsupportedError{Feature: "syscalls", Need: "a system call table for this architecture", Have: err.Error(), Hint: "use amd64 or arm64"}
	}
	return seccomp.Build(seccomp.Spec{
		Arch:      arch,
		Strict:    prof.Process.Syscalls.Mode == "strict",
		Additions: prof.Process.Syscalls.Additions,
		AllowInet: p.netNS || p.NeedsEgress,
		SysVIPC:   p.mounts,
		OwnPidNS:  p.pidNS,
	})
}

func (p *Plan) listMounts(add func(call, what string, f func(e *emitter))) {
	add("mount", "every mount private to this run", (*emitter).private)
	whole := p.whole()
	add("fsopen+move_mount", "new root: only what the profile names", func(e *emitter) { e.newRoot(whole) })
	for _, n := range p.layout.nodes {
		n := n
		text := n.path + "  " + attrNames(n.attrs()) + "  [" + n.rule + "]"
		switch n.kind {
		case nodeBind, nodeSocket:
			if n == whole {
				continue
			}
			if n.rule == "built-in" && n.device && n.src == "" && p.makesDevices() {
				add("mknodat", n.path+"  own device node", func(e *emitter) { e.makeDevice(n) })
				continue
			}
			add("open_tree+move_mount", text, func(e *emitter) { e.bind(n) })
		case nodeSelf:
			add("open_tree+move_mount", "onto itself: "+text, func(e *emitter) { e.self(n) })
		case nodeMask:
			if p.hasOpenBelow(n) {
				add("fsopen+move_mount", "cover "+n.path+", to be passed through  ["+n.rule+"]", func(e *emitter) { e.openMask(n) })
				continue
			}
			add("open_tree+move_mount", "cover "+n.path+"  ["+n.rule+"]", func(e *emitter) { e.mask(n) })
		case nodeTmp:
			add("open_tree+move_mount", "private "+n.path, func(e *emitter) { e.privateDir(n) })
		case nodeDev:
			add("mkdirat", "/dev", func(e *emitter) { e.dev(n) })
		case nodeProc:
			add("fsopen+move_mount", "/proc, own processes only, read-only", func(e *emitter) { e.proc(n) })
		case nodePTS:
			add("fsopen+move_mount", "/dev/pts, own terminals", func(e *emitter) { e.pts(n) })
		case nodeHosts:
			add("openat+move_mount", "/etc/hosts with pinned names", func(e *emitter) { e.hostsFile(n) })
		case nodeHide:
			add("fsopen+move_mount", "hide "+n.path, func(e *emitter) { e.hide(n) })
		}
	}
	for _, k := range p.layout.links {
		k := k
		add("symlinkat", k.At+" → "+k.Target, func(e *emitter) { e.link(k) })
	}
	if len(p.layout.entries) > 0 {
		add("landlock_add_rule", fmt.Sprintf("%d entries beside closed paths, one by one", len(p.layout.entries)), (*emitter).entries)
	}
	add("mount_setattr", "the skeleton read-only", (*emitter).seal)
	add("pivot_root", "enter the new root, detach the old", (*emitter).enterRoot)
}

// whole is the node of "/", where the profile grants it.
func (p *Plan) whole() *node {
	if len(p.layout.nodes) > 0 && p.layout.nodes[0].path == "/" {
		return p.layout.nodes[0]
	}
	return nil
}

func (p *Plan) hasOpenBelow(m *node) bool {
	for _, n := range p.layout.nodes {
		if n.parent == m && n.access != 0 {
			return true
		}
	}
	return false
}

// tieToSupervisor makes the child die with the supervising thread. The read
// closes the gap before the prctl: a pipe whose only writer is gone reads as
// end of file, one with a living writer as EAGAIN.
func (e *emitter) tieToSupervisor() {
	e.call("prctl", "parent death signal SIGKILL", unix.SYS_PRCTL, []any{unix.PR_SET_PDEATHSIG, int(unix.SIGKILL), 0, 0, 0})
	e.call("close", "the child's copy of the life line", unix.SYS_CLOSE, []any{e.so.lifeW})
	buf := make([]byte, 1)
	e.call("read", "the supervisor lives", unix.SYS_READ, []any{e.so.lifeR, buf, 1}, script.WantErrno(syscall.EAGAIN))
	if e.so.gateR >= 0 {
		e.call("close", "the child's copy of the gate", unix.SYS_CLOSE, []any{e.so.gateW})
		e.call("read", "wait until the cgroup is joined", unix.SYS_READ, []any{e.so.gateR, buf, 1}, script.WantResult(1))
	}
}

func (e *emitter) idMaps() {
	h := e.p.host
	e.writeFile("/proc/self/setgroups", "deny")
	e.writeFile("/proc/self/uid_map", fmt.Sprintf("%d %d 1\n", h.UID, h.UID))
	e.writeFile("/proc/self/gid_map", fmt.Sprintf("%d %d 1\n", h.GID, h.GID))
}

func (e *emitter) joinTasks() {
	for _, fd := range e.so.TaskFDs {
		e.call("write", "0 to a v1 tasks file", unix.SYS_WRITE, []any{fd, []byte("0"), 1}, script.WantResult(1))
	}
}

// loopback brings lo up with a prebuilt rtnetlink message.
func (e *emitter) loopback() {
	r := e.b.NewReg()
	msg := netns.LoopbackUp
	e.ack = make([]byte, 128)
	e.call("socket", "rtnetlink", unix.SYS_SOCKET, []any{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, script.Out(r))
	e.call("sendto", "RTM_NEWLINK lo up", unix.SYS_SENDTO, []any{r, msg, len(msg), 0, 0, 0}, script.WantResult(uintptr(len(msg))))
	e.call("recvfrom", "its acknowledgement", unix.SYS_RECVFROM, []any{r, e.ack, len(e.ack), 0, 0, 0})
	e.close(r)
}

// stdio puts the three standard descriptors in place, over copies, since a
// source may itself be one of 0, 1, 2.
func (e *emitter) stdio() {
	src := [3]int{e.so.stdin, e.so.stdout, e.so.stderr}
	var reg [3]script.Reg
	for i, fd := range src {
		reg[i] = e.b.NewReg()
		e.call("fcntl", fmt.Sprintf("copy of descriptor %d", fd), unix.SYS_FCNTL, []any{fd, unix.F_DUPFD_CLOEXEC, 10}, script.Out(reg[i]))
	}
	for i := range src {
		e.call("dup3", fmt.Sprintf("to %d", i), unix.SYS_DUP3, []any{reg[i], i, 0})
	}
	e.guard = e.b.NewReg()
	e.call("fcntl", "a descriptor that exec would pass on", unix.SYS_FCNTL, []any{0, unix.F_DUPFD, 10}, script.Out(e.guard))
}

func (e *emitter) resourceLimits() {
	e.limit("RLIMIT_CORE", unix.RLIMIT_CORE, 0, 0)
	lim := e.p.limits
	cur, max := e.so.noFileCur, e.so.noFileMax
	if n := uint64(lim.Files); n != 0 {
		cur, max = min(n, max), min(n, max)
	}
	e.limit("RLIMIT_NOFILE", unix.RLIMIT_NOFILE, cur, max)
	if n := uint64(lim.FileSize); n != 0 {
		e.limit("RLIMIT_FSIZE", unix.RLIMIT_FSIZE, n, n)
	}
	if e.p.NeedsSlot {
		return
	}
	if n := uint64(lim.Memory); n != 0 {
		e.limit("RLIMIT_DATA", unix.RLIMIT_DATA, n, n)
	}
	if n := uint64(lim.Pids); n != 0 && e.p.userNS {
		// After the user namespace: the count is the namespace's own (since 5.14).
		// The init counts too.
		e.limit("RLIMIT_NPROC", unix.RLIMIT_NPROC, n+1, n+1)
	}
}

func (e *emitter) closeRange() {
	const cloexec = 4 // CLOSE_RANGE_CLOEXEC, since Linux 5.11
	e.call("close_range", "3 and up: close on exec", unix.SYS_CLOSE_RANGE, []any{3, uint64(^uint32(0)), cloexec})
	e.call("fcntl", "canary: the copy closes on exec now", unix.SYS_FCNTL, []any{e.guard, unix.F_GETFD, 0}, script.WantResult(unix.FD_CLOEXEC))
	if e.p.pidNS {
		e.call("fcntl", "the status pipe stays open for init", unix.SYS_FCNTL, []any{e.so.statusW, unix.F_SETFD, 0})
	}
}

func (e *emitter) execInit() {
	argv := append([]string{"lockbox-init", strconv.Itoa(e.so.statusW), e.p.opts.Path}, e.p.opts.Argv...)
	e.b.ExecFD("init", uintptr(e.so.initFD), argv, e.p.opts.Env)
}

// rulesWithoutMounts is the tier of a host without namespaces, where the caller
// gave the mounts' promises up by name: Landlock rules on the host's paths.
func (e *emitter) rulesWithoutMounts() {
	add := func(n *node) {
		r := e.b.NewReg()
		e.openPath(n.path, n.dir, unix.AT_FDCWD, r)
		e.grant(n, r)
		e.close(r)
	}
	for _, n := range e.p.layout.nodes {
		switch n.kind {
		case nodeBind:
			add(n)
		case nodeProc:
			add(n)
		case nodeTmp:
			if n.path == "/tmp" && e.p.opts.TmpDir != "" {
				t := *n
				t.path = path.Join(e.p.opts.TmpDir, "tmp")
				add(&t)
			}
		}
	}
	e.entries()
}

// landlockCanary tries what no rule grants, right after the domain holds.
func (e *emitter) landlockCanary() {
	if e.p.mounts || e.p.opts.TmpDir != "" {
		// Landlock: no rule grants device nodes. Its hook comes before the
		// capability check (do_mknodat, fs/namei.c), so EACCES is Landlock's word
		// and EPERM would be the missing capability's. A whiteout (0:0) will not do:
		// newer kernels take it as a regular file (seen on 6.12.117).
		p := "/tmp/.lockbox-canary"
		if !e.p.mounts {
			p = path.Join(e.p.opts.TmpDir, "tmp/.lockbox-canary")
		}
		e.call("mknodat", "canary "+p+": a node that no rule grants", unix.SYS_MKNODAT, []any{unix.AT_FDCWD, p, unix.S_IFCHR, int(unix.Mkdev(1, 3))}, script.WantErrno(syscall.EACCES))
	}
}

// EgressCanary is the destination that a start under the egress programs tries,
// as a receipt would name it. It is in no network (RFC 1122, 3.2.1.3).
const EgressCanary = "0.1.2.3:9/udp"

// canaries try, under this very plan, one thing per layer that must be denied.
// Each had its positive control before (see controls).
func (e *emitter) canaries() {
	if e.p.mounts {
		e.call("fchmodat", "canary: mode of /", unix.SYS_FCHMODAT, []any{unix.AT_FDCWD, "/", 0o755}, script.WantErrno(e.chmodErrnos()...))
	}
	e.call("socket", "canary: AF_VSOCK", unix.SYS_SOCKET, []any{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, script.WantErrno(syscall.EPERM))
	switch {
	case e.p.netNS:
		e.bindControl(e.so.netPort)
		e.connectCanary("no way out of the empty namespace", [4]byte{192, 0, 2, 1}, syscall.ENETUNREACH)
	case e.p.NeedsEgress:
		e.connectCanary("0.1.2.3 is in no rule", [4]byte{0, 1, 2, 3}, syscall.EPERM)
	default:
		e.call("socket", "canary: AF_INET", unix.SYS_SOCKET, []any{unix.AF_INET, unix.SOCK_STREAM, 0}, script.WantErrno(syscall.EPERM))
	}
	e.unixCanaries()
	if v := e.so.victim; v > 1 && (e.p.pidNS || e.p.abi >= 6) {
		e.call("kill", fmt.Sprintf("canary: signal 0 to process %d outside", v), unix.SYS_KILL, []any{v, 0}, script.WantErrno(syscall.EPERM, syscall.ESRCH))
	}
}

func (e *emitter) chmodErrnos() []syscall.Errno {
	return []syscall.Errno{syscall.EROFS, syscall.EPERM} // EPERM: the strict filter answers first
}

func (e *emitter) connectCanary(what string, ip [4]byte, want syscall.Errno) {
	r := e.b.NewReg()
	sa := &unix.RawSockaddrInet4{Family: unix.AF_INET, Port: 9 << 8, Addr: ip}
	e.call("socket", "UDP", unix.SYS_SOCKET, []any{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0}, script.Out(r))
	e.call("connect", "canary: "+what, unix.SYS_CONNECT, []any{r, unsafe.Pointer(sa), int(unsafe.Sizeof(*sa))}, script.WantErrno(want))
	e.close(r)
}

// bindControl binds the port that the parent holds: it works in another network
// namespace only.
func (e *emitter) bindControl(port int) {
	r := e.b.NewReg()
	sa := &unix.RawSockaddrInet4{Family: unix.AF_INET, Port: uint16(port)<<8 | uint16(port)>>8}
	e.call("socket", "UDP", unix.SYS_SOCKET, []any{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0}, script.Out(r))
	e.call("bind", "canary: the port that the caller holds in its own network namespace", unix.SYS_BIND, []any{r, unsafe.Pointer(sa), int(unsafe.Sizeof(*sa))})
	e.close(r)
}

func (e *emitter) unixCanaries() {
	try := func(what, name string, want ...syscall.Errno) {
		r := e.b.NewReg()
		sa := &unix.RawSockaddrUnix{Family: unix.AF_UNIX}
		for i := 0; i < len(name); i++ {
			sa.Path[i] = int8(name[i])
		}
		e.call("socket", "AF_UNIX", unix.SYS_SOCKET, []any{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0}, script.Out(r))
		e.call("connect", "canary: "+what, unix.SYS_CONNECT, []any{r, unsafe.Pointer(sa), 2 + len(name)}, script.WantErrno(want...))
		e.close(r)
	}
	if p := e.so.canaryPath; p != "" && (e.p.mounts || e.p.abi >= 9) {
		try("a path socket outside, "+p, p+"\x00", syscall.ENOENT, syscall.EACCES, syscall.ENOTDIR, syscall.EPERM)
	}
	if a := e.so.canaryAbstract; a != "" && (e.p.netNS || e.p.abi >= 6) {
		try("an abstract socket outside", "\x00"+a, syscall.EPERM, syscall.ECONNREFUSED)
	}
}
