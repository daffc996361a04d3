package seccomp

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

type outcome int

const (
	works outcome = iota
	refused
	absentCall
)

// probe is one system call with arguments that do no harm should the kernel see them: bad descriptors, bad
// addresses, pids that nobody has. What "works" is compared with the same call without a filter.
type probe struct {
	name          string
	nr            uintptr
	args          [6]uintptr
	usual, strict outcome
	addition      bool // opened by an addition
	asked         bool // opened by AllowInet or SysVIPC, so refused without them
	mustSucceed   bool // also has to succeed in the kernel
	closes        bool // gives a descriptor
}

// things are the objects that probes point to, made before the filter.
type things struct {
	tcp4, tcp6, udp, unix int
	pipe                  [2]int
	dst                   unix.RawSockaddrInet4
	one                   int32
	limit                 unix.Rlimit
	buf                   [64]byte
	pair                  [2]int32
	msg                   unix.Msghdr
	listener              net.Listener
}

func prepare() (*things, error) {
	o := &things{one: 1}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o.listener = l
	port := l.Addr().(*net.TCPAddr).Port
	o.dst = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: uint16(port>>8 | port&0xff<<8), Addr: [4]byte{127, 0, 0, 1}}
	for fd, kind := range map[*int][2]int{
		&o.tcp4: {unix.AF_INET, unix.SOCK_STREAM}, &o.tcp6: {unix.AF_INET, unix.SOCK_STREAM},
		&o.udp: {unix.AF_INET, unix.SOCK_DGRAM}, &o.unix: {unix.AF_UNIX, unix.SOCK_STREAM},
	} {
		if *fd, err = unix.Socket(kind[0], kind[1]|unix.SOCK_CLOEXEC, 0); err != nil {
			return nil, err
		}
	}
	return o, unix.Pipe2(o.pipe[:], unix.O_CLOEXEC)
}

func ask(o *things) map[string]int {
	got := map[string]int{}
	for _, p := range probes(o) {
		r, _, e := unix.RawSyscall6(p.nr, p.args[0], p.args[1], p.args[2], p.args[3], p.args[4], p.args[5])
		if _, twice := got[p.name]; twice {
			panic("two probes are called " + p.name)
		}
		got[p.name] = int(e)
		if p.closes && e == 0 {
			unix.Close(int(r))
		}
	}
	runtime.KeepAlive(o)
	return got
}

const (
	none   = ^uintptr(0) // no descriptor, no pid, no address
	bad    = uintptr(8)  // an address that is never mapped
	nobody = 0x7ffffff0  // above every pid_max
)

func probes(o *things) []probe {
	var out []probe
	arch, _ := HostArch()
	add := func(call, note string, p probe, args ...uintptr) {
		nr, ok := arch.Number(call)
		if !ok {
			return // a call that only the other architecture has
		}
		p.nr, p.name = uintptr(nr), call+" "+note
		copy(p.args[:], args)
		out = append(out, p)
	}
	always := probe{usual: refused, strict: refused}
	never := probe{usual: absentCall, strict: absentCall}
	yes := probe{}
	sure := probe{mustSucceed: true}
	notStrict := probe{strict: refused}
	addition := probe{usual: refused, strict: refused, addition: true}

	// Sockets. K-022
	sock := func(want outcome, asked bool, domain, kind, proto uintptr, note string) {
		add("socket", note, probe{usual: want, strict: want, asked: asked, closes: true, mustSucceed: want == works}, domain, kind, proto)
	}
	sock(works, false, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0, "unix stream")
	sock(works, false, unix.AF_UNIX, unix.SOCK_SEQPACKET, 0, "unix seqpacket")
	sock(works, true, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0, "tcp")
	sock(works, true, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, "tcp by protocol")
	sock(works, true, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP, "udp")
	sock(works, true, unix.AF_INET6, unix.SOCK_STREAM, 0, "tcp6")
	sock(works, true, unix.AF_INET6, unix.SOCK_DGRAM, 0, "udp6")
	for domain := uintptr(0); domain < 48; domain++ {
		switch domain {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK:
		default: // vsock 40, packet 17, alg 38, bluetooth 31, xdp 44, smc 43, tipc 30, can 29 …
			sock(refused, false, domain, unix.SOCK_STREAM, 0, fmt.Sprintf("family %d", domain))
			sock(refused, false, domain, unix.SOCK_RAW, 0, fmt.Sprintf("family %d raw", domain))
		}
	}
	sock(refused, false, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, "mptcp")
	sock(refused, false, unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP, "mptcp6")
	sock(refused, false, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, "raw icmp")
	sock(refused, false, unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW, "raw")
	sock(refused, false, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP, "raw udp")
	sock(refused, false, unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, "ping")
	sock(refused, false, unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, "udplite")
	sock(refused, false, unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP, "sctp")
	sock(refused, false, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP, "sctp stream")
	sock(refused, false, unix.AF_INET, unix.SOCK_STREAM, 256, "smc")
	sock(refused, false, unix.AF_INET, unix.SOCK_DCCP, 0, "dccp")
	sock(refused, false, unix.AF_INET, unix.SOCK_PACKET, 0x300, "old packet")
	sock(works, false, unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE, "rtnetlink")
	for proto := uintptr(1); proto < 24; proto++ {
		sock(refused, false, unix.AF_NETLINK, unix.SOCK_RAW, proto, fmt.Sprintf("netlink %d", proto))
	}
	if runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" {
		sock(refused, false, uintptr(uint64(0xdead)<<32|unix.AF_VSOCK), unix.SOCK_STREAM, 0, "vsock with garbage above")
	}
	add("socketpair", "unix", sure, unix.AF_UNIX, unix.SOCK_STREAM, 0, addr(&o.pair))
	add("socketpair", "inet", always, unix.AF_INET, unix.SOCK_STREAM, 0, addr(&o.pair))
	add("sendto", "fast open", always, uintptr(o.tcp4), addr(&o.buf), 1, unix.MSG_FASTOPEN, addr(&o.dst), 16)
	add("sendto", "udp", sure, uintptr(o.udp), addr(&o.buf), 1, unix.MSG_NOSIGNAL, addr(&o.dst), 16)
	add("sendto", "no descriptor", yes, none, 0, 0, 0)
	add("sendmsg", "fast open", always, none, addr(&o.msg), unix.MSG_FASTOPEN)
	add("sendmsg", "no descriptor", yes, none, addr(&o.msg), 0)
	add("sendmmsg", "fast open", always, none, addr(&o.msg), 1, unix.MSG_FASTOPEN|unix.MSG_DONTWAIT)
	add("sendmmsg", "no descriptor", yes, none, addr(&o.msg), 1, unix.MSG_DONTWAIT)
	add("setsockopt", "fast open connect", always, uintptr(o.tcp6), unix.SOL_TCP, unix.TCP_FASTOPEN_CONNECT, addr(&o.one), 4)
	add("setsockopt", "ulp", always, uintptr(o.tcp6), unix.SOL_TCP, unix.TCP_ULP, addr(&o.buf), 4)
	add("setsockopt", "nodelay", sure, uintptr(o.tcp6), unix.SOL_TCP, unix.TCP_NODELAY, addr(&o.one), 4)
	add("setsockopt", "reuseaddr", sure, uintptr(o.tcp6), unix.SOL_SOCKET, unix.SO_REUSEADDR, addr(&o.one), 4)

	// io_uring, namespaces, mounts. The clone flags in use are ones that the kernel answers with EINVAL. K-019
	for _, c := range []string{"io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "listmount", "statmount", "listns", "lookup_dcookie"} {
		add(c, "", never, 0, 0, 0, 0)
	}
	for bit, note := range map[uintptr]string{
		unix.CLONE_NEWUSER: "user", unix.CLONE_NEWNS: "mount", unix.CLONE_NEWPID: "pid", unix.CLONE_NEWNET: "net",
		unix.CLONE_NEWIPC: "ipc", unix.CLONE_NEWUTS: "uts", unix.CLONE_NEWCGROUP: "cgroup", unix.CLONE_PARENT: "parent",
	} {
		add("clone", note, always, unix.CLONE_THREAD|bit)
	}
	add("clone", "of a thread without memory", yes, unix.CLONE_THREAD)
	add("unshare", "nothing", always, 0)
	add("unshare", "user", always, unix.CLONE_NEWUSER)
	add("setns", "", always, none, 0)
	for _, c := range []string{"mount", "pivot_root"} {
		add(c, "", always, bad, bad, bad, 0, 0)
	}
	for _, c := range []string{"umount2", "chroot", "swapon", "swapoff", "acct", "delete_module", "fsopen"} {
		add(c, "", always, bad, 0)
	}
	for _, c := range []string{"open_tree", "open_tree_attr", "fspick", "name_to_handle_at", "mount_setattr"} {
		add(c, "", always, none, bad, none, 0, 0)
	}
	add("move_mount", "", always, none, bad, none, bad, 0)
	for _, c := range []string{"fsconfig", "fsmount", "open_by_handle_at", "pidfd_getfd", "process_madvise", "process_mrelease", "quotactl_fd", "fanotify_mark"} {
		add(c, "", always, none, none, none, none, none)
	}

	// The machine.
	add("bpf", "", always, 0xffff, 0, 0)
	add("quotactl", "", always, none, bad, 0, 0)
	add("reboot", "without its magic", always, 0, 0, 0, 0)
	add("kexec_load", "", always, 0, 1<<20, bad, none)
	add("kexec_file_load", "", always, none, none, 0, bad, none)
	add("init_module", "", always, bad, 0, bad)
	add("finit_module", "", always, none, bad, 0)
	add("settimeofday", "", always, bad, bad)
	add("clock_settime", "", always, 9999, bad)
	add("adjtimex", "", always, bad)
	add("clock_adjtime", "", always, 9999, bad)
	add("syslog", "", always, none, 0, 0)
	add("vhangup", "without a terminal", always)
	add("sethostname", "", always, bad, 1)
	add("setdomainname", "", always, bad, 1)
	add("iopl", "", always, 9)
	add("ioperm", "", always, none, 1, 0)
	add("modify_ldt", "", always, 99)
	add("fanotify_init", "", always, none, 0)
	add("lsm_set_self_attr", "", always, 0, 0, 0, 0)
	add("kcmp", "", always, nobody, nobody, 99)

	// By name.
	add("perf_event_open", "", addition, bad, 0, none, none, 0)
	add("userfaultfd", "", addition, none)
	add("keyctl", "", addition, none)
	add("add_key", "", addition, bad, bad, 0, 0, 0)
	add("request_key", "", addition, bad, bad, 0, 0)

	// ioctl.
	add("ioctl", "TIOCSTI", always, none, unix.TIOCSTI, bad)
	add("ioctl", "TIOCLINUX", always, none, unix.TIOCLINUX, bad)
	add("ioctl", "TIOCSTI on a pipe", always, uintptr(o.pipe[0]), unix.TIOCSTI, addr(&o.buf))
	add("ioctl", "TIOCSTI with garbage above", always, none, uintptr(uint64(0xdeadbeef)<<32|unix.TIOCSTI), bad)
	add("ioctl", "TIOCLINUX with garbage above", always, none, uintptr(uint64(0xffffffff)<<32|unix.TIOCLINUX), bad)
	add("ioctl", "TIOCCONS", always, none, unix.TIOCCONS, bad)
	add("ioctl", "TIOCSETD", always, none, unix.TIOCSETD, bad)
	add("ioctl", "FIONREAD", sure, uintptr(o.pipe[0]), unix.TIOCINQ, addr(&o.buf))
	add("ioctl", "TCGETS", yes, uintptr(o.pipe[0]), unix.TCGETS, addr(&o.buf))
	add("ioctl", "FS_IOC_SETFLAGS", notStrict, none, unix.FS_IOC_SETFLAGS, bad)
	add("ioctl", "FS_IOC_GETFLAGS", yes, none, unix.FS_IOC_GETFLAGS, bad)

	// Other processes. None has the pid nobody; the filter cannot know that.
	add("prlimit64", "own, read", sure, 0, unix.RLIMIT_NOFILE, 0, addr(&o.limit))
	add("prlimit64", "another's, read", yes, uintptr(os.Getppid()), unix.RLIMIT_NOFILE, 0, addr(&o.limit))
	add("prlimit64", "another's, changed", always, nobody, unix.RLIMIT_NOFILE, bad, 0)
	add("setpriority", "own", sure, unix.PRIO_PROCESS, 0, 19)
	add("setpriority", "another's", always, unix.PRIO_PROCESS, nobody, 19)
	add("setpriority", "a group's", always, unix.PRIO_PGRP, nobody, 19)
	add("setpriority", "a user's", always, unix.PRIO_USER, nobody, 19)
	add("ioprio_set", "own", yes, 1, 0, 0)
	add("ioprio_set", "another's", always, 1, nobody, 0)
	add("ioprio_set", "a group's", always, 2, nobody, 0)
	for _, c := range []string{"sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr", "move_pages", "migrate_pages"} {
		add(c, "another's", always, nobody, 0, bad)
		add(c, "own", yes, 0, 0, bad)
	}
	add("ptrace", "nobody", notStrict, unix.PTRACE_PEEKDATA, nobody, 0, 0)
	add("process_vm_readv", "nobody", notStrict, nobody, 0, 0, 0, 0, 0)
	add("process_vm_writev", "nobody", notStrict, nobody, 0, 0, 0, 0, 0)
	add("kill", "nobody", yes, nobody, 0)

	add("personality", "query", sure, 0xffffffff)
	add("personality", "default", sure, 0)
	add("personality", "READ_IMPLIES_EXEC", always, 0x400000)
	add("personality", "ADDR_NO_RANDOMIZE", probe{strict: refused, mustSucceed: true}, 0x40000)
	add("personality", "another ABI", always, 8)

	// Files. K-028
	for _, c := range []string{"chmod", "chown", "lchown", "utime", "utimes", "removexattr", "lremovexattr"} {
		add(c, "", notStrict, bad, 0, 0)
	}
	for _, c := range []string{"fchmod", "fchown", "fremovexattr"} {
		add(c, "", notStrict, none, bad, 0)
	}
	for _, c := range []string{"fchmodat", "fchmodat2", "fchownat", "utimensat", "futimesat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattrat", "file_setattr"} {
		add(c, "", notStrict, none, bad, bad, 0, 0)
	}
	add("inotify_add_watch", "", notStrict, none, bad, 1)
	add("mknodat", "character device", always, none, bad, unix.S_IFCHR|0o600)
	add("mknodat", "block device", always, none, bad, unix.S_IFBLK|0o600)
	add("mknodat", "fifo", yes, none, bad, unix.S_IFIFO|0o600)
	add("mknodat", "file", yes, none, bad, unix.S_IFREG|0o600)
	add("mknod", "character device", always, bad, unix.S_IFCHR|0o600)
	add("mknod", "socket", yes, bad, unix.S_IFSOCK|0o600)
	for _, c := range []string{"openat", "openat2", "statx", "faccessat", "faccessat2", "unlinkat", "mkdirat"} {
		add(c, "", yes, none, bad, 0, 0, 0)
	}

	// IPC shared by a namespace.
	for _, c := range []string{"shmget", "semget", "msgget"} {
		add(c, "no such key", probe{strict: refused, asked: true}, 0x7e57ab1e, 0, 0)
	}
	add("mq_open", "", probe{strict: refused, asked: true}, bad, 0, 0, 0)
	add("io_setup", "", probe{strict: absentCall}, 0, bad)

	// What has to stay.
	add("getpid", "", sure)
	add("memfd_create", "", probe{mustSucceed: true, closes: true}, addr(&o.buf), unix.MFD_CLOEXEC)
	add("landlock_create_ruleset", "version", yes, 0, 0, 1)
	add("seccomp", "of an unknown operation", yes, none, 0, 0)
	add("prctl", "dumpable", sure, unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	add("execve", "nothing", yes, bad, 0, 0)
	add("execveat", "nothing", yes, none, bad, 0, 0, 0)
	add("pidfd_open", "self", probe{mustSucceed: true, closes: true}, uintptr(syscall.Getpid()), 0)
	add("close_range", "none", sure, 1<<20, 1<<20, 0)
	add("mbind", "nothing", yes, 0, 0, 0, 0, 0, 0)
	add("rseq", "wrong length", yes, 0, 1, 0, 0)

	for _, nr := range []uintptr{472, 600, 9999, none, 1 << 31} {
		out = append(out, probe{name: fmt.Sprintf("number %#x", nr), nr: nr, usual: absentCall, strict: absentCall})
	}
	return out
}
