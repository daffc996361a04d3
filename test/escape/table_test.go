package escape

import "maps"

// A row says what is right for one probe.
type row struct {
	// denied are the answers that a run may get; empty means that the row must be open.
	denied []string
	// open is why the way is open by design. SECURITY.md names each such row.
	open string
	// mayBeOpen is why some plans leave the way open; SECURITY.md names these too. The denials hold for the other plans.
	mayBeOpen string
	// cannot are the answers that the positive control may get instead of success, each with the reason.
	cannot map[string]string
}

func denied(lists ...[]string) row {
	var r row
	for _, l := range lists {
		r.denied = append(r.denied, l...)
	}
	return r
}

func (r row) unless(errno, reason string) row {
	if r.cannot = maps.Clone(r.cannot); r.cannot == nil {
		r.cannot = map[string]string{}
	}
	r.cannot[errno] = reason
	return r
}

func (r row) maybe(reason string) row {
	r.mayBeOpen = reason
	return r
}

func open(reason string) row { return row{open: reason} }

// Answers by cause. One cause may have several errnos: the mechanism differs by kernel and by tier, and each list holds all.
var (
	hidden   = []string{"ENOENT", "EACCES"}                                      // not in the run's tree, or refused by Landlock
	readOnly = []string{"ENOENT", "EACCES", "EROFS"}                             // the tree is read-only as well
	crossing = []string{"ENOENT", "EACCES", "EXDEV", "EROFS"}                    // link and rename stop at a mount as well
	filtered = []string{"EPERM"}                                                 // the seccomp filter
	absent   = []string{"ENOSYS"}                                                // the filter, for what a program should believe to be missing
	noProc   = []string{"ESRCH", "EPERM", "EACCES", "ENOENT"}                    // another pid namespace, Landlock, or hidepid
	noRoute  = []string{"ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL", "EPERM"} // own network namespace, or cgroup programs
	noReply  = []string{"ENETUNREACH", "ECONNREFUSED", "EPERM", "EADDRNOTAVAIL", "no-reply"}
	noFamily = []string{"EPERM", "EACCES", "EAFNOSUPPORT"}
)

const (
	noRootHere  = "needs root"
	noKernel    = "this kernel was built without it"
	tooOld      = "the kernel is older than the call"
	noHardware  = "the host has no such device"
	hostPolicy  = "the host closes it to everyone"
	unprivBPF   = "unprivileged BPF is switched off"
	noMember    = "no group is in ping_group_range"
	noIPv6      = "the host has no IPv6"
	noTmpXattr  = "tmpfs has user attributes since 6.6"
	noHandles   = "the file system has no handles"
	noRunFolder = "an ordinary user cannot write /run"
	noVT        = "only a virtual terminal has it"
	perfClosed  = "perf_event_paranoid is above 2"
	noLegacy    = "dev.tty.legacy_tiocsti is 0"
)

// table holds every probe; a probe without a row fails the test, and a row without a probe too.
var table = map[string]row{
	// K-002, K-019, L-041, L-042: files outside the granted roots.
	"file-read":          denied(hidden),
	"file-write":         denied(readOnly),
	"file-truncate":      denied(readOnly),
	"file-open-truncate": denied(readOnly),
	"file-create":        denied(readOnly),
	"file-tmpfile":       denied(readOnly).unless("ENOTSUP", "the file system has no O_TMPFILE"),
	"file-remove":        denied(readOnly),
	"dir-list":           denied(hidden),
	"dir-make":           denied(readOnly),
	"fifo-make":          denied(readOnly),
	"symlink-make":       denied(readOnly),
	"symlink-read":       denied(hidden),
	"symlink-write":      denied(readOnly),
	"dotdot-read":        denied(hidden),
	"hardlink-in":        denied(crossing),
	"hardlink-out":       denied(crossing),
	"rename-out":         denied(crossing),
	"rename-in":          denied(crossing),
	"rename-outside":     denied(crossing),
	"proc-root-read":     denied(hidden),
	"proc-cwd-read":      denied(hidden),
	"daemonised-read":    denied(hidden),
	"exec-outside":       denied(hidden),
	"memfd-exec":         open("what a run may write or map it may also run; Landlock's EXECUTE is no W^X"),

	// K-028: what Landlock leaves open up to ABI 8.
	"stat":            denied(hidden),
	"access":          denied(hidden),
	"readlink":        denied(hidden),
	"statfs":          denied(hidden),
	"open-path":       denied(hidden),
	"chdir":           denied(hidden),
	"listxattr":       denied(hidden),
	"inotify":         denied(hidden, filtered),
	"fanotify":        denied(filtered, absent),
	"chmod":           denied(readOnly),
	"fchmodat2":       denied(readOnly, absent).unless("ENOSYS", tooOld),
	"chown":           denied(readOnly),
	"setxattr":        denied(readOnly).unless("ENOTSUP", noTmpXattr),
	"utimensat":       denied(readOnly),
	"metadata-procfd": denied(readOnly),
	"metadata-usr":    denied([]string{"EROFS", "EPERM", "EACCES"}).unless("EPERM", noRootHere),
	"handle-name":     denied(filtered, hidden).unless("ENOTSUP", noHandles),
	"handle-open":     denied(filtered, hidden).unless("ENOTSUP", noHandles).unless("EPERM", noRootHere).unless("ESTALE", noHandles),
	"inherited-fd":    denied([]string{"EBADF"}),
	"inherited-dirfd": denied([]string{"EBADF"}),

	// K-008, K-022, L-040: the network.
	"tcp":                  denied(noRoute),
	"tcp6":                 denied(noRoute).unless("EADDRNOTAVAIL", noIPv6).unless("ECONNREFUSED", noIPv6).unless("EAFNOSUPPORT", noIPv6),
	"tcp-mapped":           denied(noRoute).unless("EAFNOSUPPORT", noIPv6),
	"tcp-metadata":         denied(noRoute).unless("not-tried", "only root can make the network namespace in which it may be tried"),
	"mptcp":                denied(filtered, []string{"EPROTONOSUPPORT"}).unless("EPROTONOSUPPORT", noKernel).unless("ENOPROTOOPT", "MPTCP is switched off"),
	"tcp-fastopen":         denied(filtered, noReply).unless("ENOTSUP", "fast open is switched off"),
	"tcp-fastopen-connect": denied(filtered, noReply),
	"udp":                  denied(noReply),
	"udp-mapped":           denied(noReply).unless("EAFNOSUPPORT", noIPv6),
	"udp-connected":        denied(noReply),
	"sctp":                 denied(filtered, []string{"EPROTONOSUPPORT"}).unless("EPROTONOSUPPORT", noKernel),
	"dccp":                 denied(filtered, []string{"ESOCKTNOSUPPORT", "EPROTONOSUPPORT"}).unless("ESOCKTNOSUPPORT", noKernel).unless("EPROTONOSUPPORT", noKernel),
	"listen-unbound":       denied([]string{"no-connection"}, filtered),
	"listen-bound":         denied([]string{"no-connection"}, filtered, noRoute),

	// K-023, L-045, L-046: Unix sockets outside.
	"unix-tmp":          denied(hidden, filtered, []string{"ECONNREFUSED"}),
	"unix-run":          denied(hidden, filtered, []string{"ECONNREFUSED"}).unless("no-victim", noRunFolder),
	"unix-outside":      denied(hidden, filtered),
	"unix-dgram":        denied(hidden, filtered),
	"unix-procfd":       denied(hidden, filtered),
	"unix-symlink":      denied(hidden, filtered),
	"unix-abstract":     denied(filtered, []string{"ECONNREFUSED"}),
	"unix-bind-outside": denied(readOnly, filtered),

	// K-022: families and protocols that no filter of addresses sees.
	"vsock":             denied(noFamily).unless("EAFNOSUPPORT", noKernel),
	"netlink-route":     open("programs list interfaces and addresses with it; it changes nothing without CAP_NET_ADMIN"),
	"netlink-diag":      denied(noFamily),
	"netlink-uevent":    denied(noFamily),
	"netlink-audit":     denied(noFamily).unless("EPROTONOSUPPORT", noKernel),
	"netlink-netfilter": denied(noFamily).unless("EPROTONOSUPPORT", noKernel),
	"netlink-generic":   denied(noFamily),
	"raw":               denied(noFamily).unless("EPERM", noRootHere),
	"raw6":              denied(noFamily).unless("EPERM", noRootHere).unless("EAFNOSUPPORT", noIPv6),
	"packet":            denied(noFamily).unless("EPERM", noRootHere).unless("EAFNOSUPPORT", noKernel),
	"xdp":               denied(noFamily).unless("EPERM", noRootHere).unless("EAFNOSUPPORT", noKernel),
	"icmp":              denied(noFamily).unless("EACCES", noMember),
	"alg":               denied(noFamily).unless("EAFNOSUPPORT", noKernel),
	"family-other":      denied(noFamily).unless("EPERM", noRootHere),

	// K-024: other processes.
	"kill":             denied(noProc),
	"kill-parent":      denied(noProc).unless("EPERM", "the parent is the test, which is root"),
	"tgkill":           denied(noProc),
	"sigqueue":         denied(noProc),
	"pidfd-signal":     denied(noProc),
	"sigio":            denied(noProc, []string{"not-delivered"}),
	"exists-pidfd":     denied(noProc).maybe("without a pid namespace a process can ask whether a pid exists"),
	"exists-getsid":    denied(noProc).maybe("without a pid namespace a process can ask whether a pid exists"),
	"prlimit":          denied(noProc),
	"setpriority":      denied(noProc).maybe("without a pid namespace a run of the same user id can change another process's priority"),
	"sched-affinity":   denied(noProc).maybe("without a pid namespace a run of the same user id can change another process's processors"),
	"ioprio":           denied(noProc).maybe("without a pid namespace a run of the same user id can change another process's I/O priority"),
	"ptrace":           denied(noProc),
	"ptrace-own-child": open("debuggers and strace of the run's own children"),
	"vm-read":          denied(noProc),
	"pidfd-getfd":      denied(noProc),
	"kcmp":             denied(noProc),
	"setns":            denied(noProc).unless("EPERM", noRootHere),
	"proc-root":        denied(noProc),
	"proc-cwd":         denied(noProc),
	"proc-fd":          denied(noProc),
	"proc-mem":         denied(noProc),
	"proc-exe":         denied(noProc),
	"proc-environ":     denied(noProc),
	"proc-maps":        denied(noProc),
	"proc-cmdline":     denied(noProc),
	"proc-status":      denied(noProc),
	"proc-stat":        denied(noProc),
	"proc-list":        denied(noProc, []string{"not-listed"}),
	"signal-own-child": open("a run ends its own processes"),

	// K-019: more rights, other namespaces, kernel interfaces.
	"userns-unshare":    denied(filtered).unless("EPERM", hostPolicy),
	"userns-clone":      denied(filtered).unless("EPERM", hostPolicy),
	"userns-clone3":     denied(absent),
	"netns-unshare":     denied(filtered).unless("EPERM", noRootHere),
	"mntns-unshare":     denied(filtered).unless("EPERM", noRootHere),
	"clone3-cgroup":     denied(absent).unless("EACCES", noRootHere).unless("EBADF", noRootHere),
	"mount-tmpfs":       denied(filtered).unless("EPERM", noRootHere),
	"mount-bind":        denied(filtered).unless("EPERM", noRootHere),
	"mount-remount":     denied(filtered).unless("EPERM", noRootHere).unless("EINVAL", "the root of an initramfs is not a mount of its own"),
	"mount-propagation": denied(filtered).unless("EPERM", noRootHere),
	"umount":            denied(filtered).unless("EPERM", noRootHere),
	"umount-proc":       denied(filtered).unless("EPERM", noRootHere),
	"mount-setattr":     denied(filtered).unless("EPERM", noRootHere),
	"open-tree":         denied(filtered).unless("EPERM", noRootHere),
	"fsopen":            denied(filtered).unless("EPERM", noRootHere),
	"chroot":            denied(filtered).unless("EPERM", noRootHere),
	"pivot-root":        denied(filtered).unless("EPERM", noRootHere),
	"mknod-device":      denied(filtered, []string{"EACCES"}).unless("EPERM", noRootHere),
	"io-uring":          denied(absent).unless("EPERM", hostPolicy).unless("ENOSYS", noKernel),
	"keyctl-search":     denied(filtered, absent),
	"add-key":           denied(filtered, absent),
	"request-key":       denied(filtered, absent),
	"perf":              denied(filtered).unless("EACCES", perfClosed).unless("EPERM", perfClosed),
	"userfaultfd":       denied(filtered, absent).unless("EPERM", noRootHere).unless("ENOSYS", noKernel),
	"bpf-map":           denied(filtered).unless("EPERM", unprivBPF),
	"bpf-prog":          denied(filtered).unless("EPERM", unprivBPF),
	"syslog":            denied(filtered).unless("EPERM", noRootHere),
	"sethostname":       denied(filtered).unless("EPERM", noRootHere),
	"quotactl":          denied(filtered).unless("ENOSYS", noKernel),
	"init-module":       denied(filtered, absent).unless("EPERM", noRootHere).unless("ENOSYS", noKernel),
	"kexec":             denied(filtered, absent).unless("EPERM", noRootHere).unless("ENOSYS", noKernel),
	"tiocsti":           denied(filtered).unless("EIO", noLegacy),
	"tioclinux":         denied(filtered).unless("ENOTTY", noVT),
	"dev-tty":           denied(hidden, []string{"ENXIO"}),
	"dev-ptmx":          denied(hidden),
	"dev-mem":           denied(hidden).unless("ENOENT", noHardware).unless("EACCES", noRootHere).unless("EPERM", hostPolicy),
	"dev-kmsg":          denied(hidden, filtered).unless("EACCES", noRootHere).unless("EPERM", noRootHere).unless("ENOENT", noHardware),
	"dev-disk":          denied(hidden, filtered).unless("no-victim", noHardware).unless("EPERM", hostPolicy).unless("EACCES", noRootHere).unless("ENXIO", noHardware),
	"core-limit":        denied(filtered).unless("EPERM", "the caller's hard limit is 0"),

	// K-023, K-024: IPC objects of the host.
	"sysv-shm":  denied([]string{"EINVAL", "EIDRM", "EPERM", "EACCES"}),
	"sysv-msg":  denied([]string{"EINVAL", "EIDRM", "EPERM", "EACCES"}),
	"sysv-sem":  denied([]string{"EINVAL", "EIDRM", "EPERM", "EACCES"}),
	"posix-mq":  denied(hidden, filtered, absent),
	"posix-shm": denied(hidden),

	// K-004 to K-006, K-020, K-021, L-047: what decides about runs.
	"cgroup-read":  denied(hidden).unless("ENOENT", "the host has no cgroup2"),
	"cgroup-write": denied(readOnly).unless("EACCES", noRootHere).unless("ENOENT", "the host has no cgroup2"),
	"cgroup-mkdir": denied(readOnly).unless("EACCES", noRootHere).unless("ENOENT", "the host has no cgroup2"),
	"bpffs-list":   denied(hidden).unless("ENOENT", "the host has no bpffs").unless("EACCES", noRootHere),
	"bpffs-mkdir":  denied(readOnly).unless("ENOENT", "the host has no bpffs").unless("EACCES", noRootHere),
	"state-read":   denied(hidden),
	"state-write":  denied(readOnly),
	"state-stat":   denied(hidden),
	"config-write": denied(readOnly),
	"sysctl-write": denied(readOnly, filtered).unless("EACCES", noRootHere),
	"sysrq-write":  denied(readOnly, filtered).unless("ENOENT", noKernel).unless("EACCES", noRootHere),
	"proc-kcore":   denied(hidden, filtered).unless("ENOENT", noKernel).unless("EACCES", noRootHere).unless("EPERM", hostPolicy),
	"sys-write":    denied(readOnly).unless("ENOENT", noKernel).unless("EACCES", noRootHere),
	"securityfs":   denied(hidden).unless("ENOENT", noKernel).unless("EACCES", noRootHere),
	"shadow-read":  denied(hidden).unless("EACCES", noRootHere).unless("ENOENT", "the guest has no such file"),
	"passwd-write": denied(readOnly).unless("EACCES", noRootHere),
	"env-secret":   denied([]string{"absent"}),

	// K-019: who the run is.
	"new-privs":      denied([]string{"set"}),
	"seccomp-off":    denied([]string{"set"}),
	"caps":           denied([]string{"none"}).unless("none", noRootHere),
	"caps-bounding":  denied([]string{"none"}),
	"setuid-call":    denied(filtered, []string{"EINVAL"}).unless("EPERM", noRootHere),
	"setgid-call":    denied(filtered, []string{"EINVAL"}).unless("EPERM", noRootHere),
	"setgroups":      denied(filtered).unless("EPERM", noRootHere),
	"setuid-program": denied([]string{"same-uid"}, hidden).unless("same-uid", "the folder is mounted nosuid"),
	"uid-changed":    denied([]string{"same-uid"}).unless("same-uid", "this row is for the run alone"),
}
