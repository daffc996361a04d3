package seccomp

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The oracle. It says what each call is meant to get, by name and as predicates over arguments, in words and numbers
// of its own: nothing here is derived from rules.go, args.go or consts.go.

const mustWork = `
 read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn pread64 pwrite64
 readv writev access pipe select sched_yield mremap msync mincore madvise dup dup2 pause nanosleep getitimer alarm setitimer getpid
 sendfile connect accept recvfrom recvmsg shutdown bind listen getsockname getpeername getsockopt fork vfork execve exit wait4 kill uname
 fcntl flock fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink readlink umask
 gettimeofday getrlimit getrusage sysinfo times getuid getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid setreuid setregid
 getgroups setgroups setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget capset rt_sigpending rt_sigtimedwait
 rt_sigqueueinfo rt_sigsuspend sigaltstack statfs fstatfs getpriority sched_getparam sched_getscheduler sched_get_priority_max
 sched_get_priority_min sched_rr_get_interval mlock munlock mlockall munlockall prctl arch_prctl setrlimit sync gettid readahead
 getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr tkill time futex sched_getaffinity epoll_create remap_file_pages getdents64
 set_tid_address restart_syscall fadvise64 timer_create timer_settime timer_gettime timer_getoverrun timer_delete clock_gettime
 clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl tgkill mbind set_mempolicy get_mempolicy waitid ioprio_get inotify_init
 inotify_rm_watch openat mkdirat newfstatat unlinkat renameat linkat symlinkat readlinkat faccessat pselect6 ppoll set_robust_list
 get_robust_list splice tee sync_file_range vmsplice epoll_pwait signalfd timerfd_create eventfd fallocate timerfd_settime
 timerfd_gettime accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo recvmmsg syncfs getcpu
 sched_getattr renameat2 seccomp getrandom memfd_create execveat membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect
 pkey_alloc pkey_free statx rseq uretprobe uprobe pidfd_send_signal pidfd_open close_range openat2 faccessat2 epoll_pwait2
 landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret futex_waitv set_mempolicy_home_node cachestat
 map_shadow_stack futex_wake futex_wait futex_requeue lsm_get_self_attr lsm_list_modules mseal getxattrat listxattrat file_getattr
 rseq_slice_yield`

const mustBeRefused = `
 unshare setns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount mount_setattr fsopen fsconfig fsmount fspick
 name_to_handle_at open_by_handle_at fanotify_init fanotify_mark bpf reboot kexec_load kexec_file_load init_module finit_module delete_module
 swapon swapoff acct quotactl quotactl_fd syslog vhangup sethostname setdomainname iopl ioperm modify_ldt
 settimeofday clock_settime adjtimex clock_adjtime pidfd_getfd kcmp process_madvise process_mrelease lsm_set_self_attr`

const mustLookAbsent = `
 clone3 io_uring_setup io_uring_enter io_uring_register listns statmount listmount
 uselib ustat sysfs _sysctl lookup_dcookie nfsservctl create_module get_kernel_syms query_module getpmsg putpmsg afs_syscall tuxcall
 security vserver epoll_ctl_old epoll_wait_old set_thread_area get_thread_area`

const onlyWithIPCNamespace = `
 shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
 mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr`

// K-028: what Landlock leaves open.
const notInStrict = `
 chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat file_setattr
 setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
 inotify_add_watch ptrace process_vm_readv process_vm_writev`

const absentInStrict = `io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents`

var byGroup = func() map[string]string {
	m := map[string]string{}
	for group, names := range map[string]string{
		"works": mustWork, "refused": mustBeRefused, "absent": mustLookAbsent, "ipc": onlyWithIPCNamespace, "not strict": notInStrict,
		"absent in strict": absentInStrict, "keyring": "add_key request_key keyctl", "perf": "perf_event_open", "userfaultfd": "userfaultfd",
	} {
		for _, n := range strings.Fields(names) {
			if m[n] != "" {
				panic("two intents for " + n)
			}
			m[n] = group
		}
	}
	return m
}()

// intended is what the policy owes a call, for any arguments.
func intended(s Spec, name string, args [6]uint64) Action {
	refuseIf := func(bad bool) Action {
		if bad {
			return Refuse
		}
		return Allow
	}
	int32s := [6]uint32{}
	for i, a := range args {
		int32s[i] = uint32(a) // the kernel takes an int from the low half
	}
	// "another process" as far as a filter can tell
	other := func(pid uint32) bool { return !s.OwnPidNS && pid != 0 }

	switch group := byGroup[name]; group {
	case "works":
		return Allow
	case "refused":
		return Refuse
	case "absent":
		return Absent
	case "ipc":
		return refuseIf(!s.SysVIPC || s.Strict)
	case "not strict":
		return refuseIf(s.Strict)
	case "absent in strict":
		if s.Strict {
			return Absent
		}
		return Allow
	case "keyring", "perf", "userfaultfd":
		has := false
		for _, a := range s.Additions {
			has = has || a == group
		}
		return refuseIf(!has)
	}

	switch name {
	case "": // a number that the kernel does not know
		return Absent
	case "clone":
		// K-019: no user, mount, pid, net, ipc, uts, cgroup namespace; no CLONE_PARENT
		for _, bit := range []uint{17, 25, 26, 27, 28, 29, 30, 15} {
			if int32s[0]>>bit&1 == 1 {
				return Refuse
			}
		}
		return Allow
	case "socket":
		domain, kind, proto := int32s[0], int32s[1]%16, int32s[2]
		switch domain {
		case 1: // AF_UNIX
			return Allow
		case 2, 10: // AF_INET, AF_INET6. K-022: only TCP and UDP
			ok := s.AllowInet && (kind == 1 || kind == 2) && (proto == 0 || proto == 6 || proto == 17)
			return refuseIf(!ok)
		case 16: // AF_NETLINK, NETLINK_ROUTE
			return refuseIf(proto != 0 || s.Strict && !s.AllowInet)
		}
		return Refuse
	case "socketpair":
		return refuseIf(int32s[0] != 1)
	case "sendto", "sendmmsg": // K-022: TCP Fast Open
		return refuseIf(int32s[3]>>29&1 == 1)
	case "sendmsg":
		return refuseIf(int32s[2]>>29&1 == 1)
	case "setsockopt":
		return refuseIf(int32s[1] == 6 && (int32s[2] == 30 || int32s[2] == 31))
	case "ioctl":
		switch int32s[1] {
		case 'T'<<8 | 0x12, 'T'<<8 | 0x1c, 'T'<<8 | 0x1d, 'T'<<8 | 0x23: // TIOCSTI TIOCLINUX TIOCCONS TIOCSETD
			return Refuse
		}
		inode := int32s[1]
		const write = 1 << 30 // _IOW(type, nr, size)
		for _, cmd := range []uint32{
			write | 8<<16 | 'f'<<8 | 2, write | 4<<16 | 'f'<<8 | 2, // FS_IOC_SETFLAGS, and the 32-bit form
			write | 8<<16 | 'v'<<8 | 2, write | 4<<16 | 'v'<<8 | 2, // FS_IOC_SETVERSION
			write | 8<<16 | 'f'<<8 | 4, write | 4<<16 | 'f'<<8 | 4, // EXT4_IOC_SETVERSION
			write | 28<<16 | 'X'<<8 | 32, // FS_IOC_FSSETXATTR
		} {
			if s.Strict && inode == cmd {
				return Refuse
			}
		}
		return Allow
	case "move_pages", "migrate_pages", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr":
		return refuseIf(other(int32s[0]))
	case "prlimit64":
		return refuseIf(other(int32s[0]) && args[2] != 0)
	case "setpriority": // PRIO_PROCESS is 0
		return refuseIf(int32s[0] != 0 || other(int32s[1]))
	case "ioprio_set": // IOPRIO_WHO_PROCESS is 1
		return refuseIf(int32s[0] != 1 || other(int32s[1]))
	case "personality":
		return refuseIf(int32s[0] != 0 && int32s[0] != 0xffffffff && (s.Strict || int32s[0] != 0x40000))
	case "mknod":
		return refuseIf(deviceMode(int32s[1]))
	case "mknodat":
		return refuseIf(deviceMode(int32s[2]))
	}
	panic("no intent for " + name)
}

// deviceMode: S_IFCHR or S_IFBLK, as the kernel reads a mode. The odd types that share their bit may go either way in
// the kernel (EINVAL); the policy refuses them.
func deviceMode(mode uint32) bool {
	switch mode & 0170000 {
	case 0020000, 0060000:
		return true
	case 0100000, 0010000, 0140000, 0040000, 0:
		return false
	}
	return mode&0020000 != 0
}

// Values that mean something to some call, with their neighbours, and garbage for the upper half.
var argValues = func() []uint64 {
	base := []uint64{
		0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 15, 16, 17, 18, 23, 29, 30, 31, 32, 38, 40, 44, 132, 136, 255, 256, 262, 263,
		0x80000, 0x800, 0x80801, 0x80002, 0x80003, // socket types with flags
		0x5411, 0x5412, 0x5413, 0x541b, 0x541c, 0x541d, 0x541e, 0x5422, 0x5423, 0x5424,
		0x40086602, 0x40046602, 0x40087602, 0x40047602, 0x40086604, 0x40046604, 0x401c5820, 0x801c581f, 0x80086601,
		0x20000000, 0x1fffffff, 0x40000000, 0x80000000, 0xffffffff, 0x7fffffff, 0x10000000, 0x08000000, 0x04000000, 0x02000000, 0x01000000,
		0x00020000, 0x8000, 0x4000, 0x2000, 0x1000, 0x6000, 0xa000, 0xc000, 0x21b6, 0x81a4, 0x11b6, 0x61b6,
		0x40000, 0x400000, 0x100, 0x3d0f00, 0x1200011, 17 | 0x4100, 0x1,
	}
	out := base
	for _, v := range base {
		out = append(out, v|0xdeadbeef<<32)
	}
	return append(out, 1<<32, ^uint64(0))
}()

func argSets(rng *rand.Rand) [][6]uint64 {
	sets := [][6]uint64{{}, {^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}, {1, 2, 3, 4, 5, 6}}
	for range 40 {
		var a [6]uint64
		for i := range a {
			a[i] = argValues[rng.IntN(len(argValues))]
		}
		sets = append(sets, a)
	}
	return sets
}

func specs(a Arch) []Spec {
	var out []Spec
	for bits := range 1 << 6 {
		s := Spec{Arch: a, AllowInet: bits&1 != 0, SysVIPC: bits&2 != 0, OwnPidNS: bits&4 != 0}
		for i, add := range []string{"keyring", "perf", "userfaultfd"} {
			if bits>>(3+i)&1 != 0 {
				s.Additions = append(s.Additions, add)
			}
		}
		out = append(out, s)
		if len(s.Additions) == 0 {
			s.Strict = true
			out = append(out, s)
		}
	}
	return out
}

func build(t testing.TB, s Spec) Filter {
	t.Helper()
	f, err := Build(s)
	if err != nil {
		t.Fatalf("Build(%+v): %v", s, err)
	}
	return f
}

func run(t testing.TB, f Filter, d Data) Action {
	t.Helper()
	got, err := f.Run(d)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// K-019, K-022, K-028: every number, every kind of argument, every policy, both architectures.
func TestPureFilterKeepsTheIntents(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	asked := 0
	for _, a := range []Arch{AMD64, ARM64} {
		for _, s := range specs(a) {
			f := build(t, s)
			check := func(nr uint32, args [6]uint64, want Action) {
				t.Helper()
				asked++
				if got := run(t, f, a.Call(nr, args[:]...)); got != want {
					t.Fatalf("%+v: call %d %q args %#x: filter %v, intended %v", s, nr, a.Name(nr), args, got, want)
				}
			}
			for nr := range uint32(601) {
				for _, args := range argSets(rng) {
					check(nr, args, intended(s, a.Name(nr), args))
				}
			}
			for _, args := range argSets(rng)[:6] {
				for _, nr := range []uint32{1000, 4096, 1<<30 - 1, 1 << 31, 1<<31 | 1<<30, 1<<31 | 1<<30 | 59, ^uint32(0)} {
					check(nr, args, Absent)
				}
				x32 := KillProcess // soundness: x32 shares the audit architecture, its numbers mean other calls
				if a == ARM64 {
					x32 = Absent
				}
				for nr := range uint32(601) {
					check(nr|1<<30, args, x32)
				}
				check(1<<31-1, args, x32)
			}
			// AUDIT_ARCH_*: i386, arm, the other one, riscv64, amd64 without its 64-bit flag, none
			for _, arch := range []uint32{0x40000003, 0x40000028, auditAMD64, auditARM64, 0xc00000f3, 0x3e, 0, ^uint32(0)} {
				if arch == a.audit() {
					continue
				}
				for nr := range uint32(601) {
					asked++
					if got := run(t, f, Data{Nr: nr, Arch: arch}); got != KillProcess {
						t.Fatalf("%+v: arch %#x call %d: %v, want kill", s, arch, nr, got)
					}
				}
			}
		}
	}
	t.Logf("%d questions", asked)
}

// Each value of each argument of the calls that are decided by arguments, the others at their most harmless.
func TestPureArgumentsOneByOne(t *testing.T) {
	harmless := map[string][][6]uint64{
		"socket":     {{1, 1, 0}, {2, 1, 0}, {10, 2, 0}, {16, 3, 0}},
		"socketpair": {{1, 1, 0}},
		"setsockopt": {{3, 6, 1}, {3, 1, 30}, {3, 41, 31}},
		"prlimit64":  {{0, 7, 0, 0}, {77, 7, 0, 0}, {0, 7, 1 << 40, 0}, {77, 7, 1 << 40, 0}},
		"ioprio_set": {{1, 0, 0}},
	}
	for _, a := range []Arch{AMD64, ARM64} {
		for _, s := range specs(a) {
			f := build(t, s)
			for nr := range uint32(472) {
				name := a.Name(nr)
				if name == "" || byGroup[name] != "" {
					continue
				}
				bases := harmless[name]
				if bases == nil {
					bases = [][6]uint64{{}}
				}
				for _, base := range bases {
					for i := range base {
						for _, v := range argValues {
							args := base
							args[i] = v
							if got, want := run(t, f, a.Call(nr, args[:]...)), intended(s, name, args); got != want {
								t.Fatalf("%+v: %s args %#x: filter %v, intended %v", s, name, args, got, want)
							}
						}
					}
				}
			}
		}
	}
}

// The intents in a few plain sentences, so that an error shared by filter and predicates would show.
func TestSentences(t *testing.T) {
	usual := Spec{AllowInet: true, SysVIPC: true}
	noNet := Spec{}
	strict := Spec{AllowInet: true, SysVIPC: true, Strict: true}
	pidns := Spec{OwnPidNS: true}
	for _, row := range []struct {
		spec Spec
		call string
		args []uint64
		want Action
	}{
		{usual, "execve", nil, Allow},
		{usual, "clone", []uint64{17}, Allow},                    // fork
		{usual, "clone", []uint64{0x3d0f00}, Allow},              // pthread_create
		{usual, "clone", []uint64{0x4111}, Allow},                // posix_spawn
		{usual, "clone", []uint64{17 | 0x10000000}, Refuse},      // CLONE_NEWUSER
		{usual, "clone", []uint64{17 | 0x10000000<<32}, Allow},   // the same bit where the kernel does not look
		{usual, "socket", []uint64{2, 1 | 0x80800, 6}, Allow},    // Go's Dial
		{usual, "socket", []uint64{2, 1 | 0x80800, 262}, Refuse}, // K-022: MPTCP, Go's Listen; falls back
		{usual, "socket", []uint64{2, 3, 1}, Refuse},             // K-022: raw
		{usual, "socket", []uint64{2, 2, 1}, Refuse},             // ping socket
		{usual, "socket", []uint64{2, 5, 132}, Refuse},           // K-022: SCTP
		{usual, "socket", []uint64{2, 1, 256}, Refuse},           // K-022: SMC
		{usual, "socket", []uint64{40, 1, 0}, Refuse},            // vsock
		{usual, "socket", []uint64{17, 3, 0x300}, Refuse},        // K-022: packet
		{usual, "socket", []uint64{38, 5, 0}, Refuse},            // alg
		{usual, "socket", []uint64{16, 3, 0}, Allow},             // rtnetlink
		{usual, "socket", []uint64{16, 3, 15}, Refuse},           // uevent
		{usual, "socket", []uint64{16, 3, 4}, Refuse},            // sock_diag
		{usual, "socket", []uint64{1<<32 | 40, 1, 0}, Refuse},    // vsock with garbage
		{noNet, "socket", []uint64{2, 1, 0}, Refuse},             // closed unless asked for
		{noNet, "socket", []uint64{1, 1, 0}, Allow},              // AF_UNIX stays
		{usual, "socketpair", []uint64{2, 1, 0}, Refuse},         //
		{usual, "sendto", []uint64{3, 0, 0, 0x20000000}, Refuse}, // K-022: Fast Open
		{usual, "sendto", []uint64{3, 0, 0, 0x4000}, Allow},      // MSG_NOSIGNAL
		{usual, "ioctl", []uint64{0, 0x5412}, Refuse},            // TIOCSTI
		{usual, "ioctl", []uint64{0, 0xdead00005412}, Refuse},    // TIOCSTI with garbage
		{usual, "ioctl", []uint64{0, 0xdead0000541c}, Refuse},    // TIOCLINUX with garbage
		{usual, "ioctl", []uint64{0, 0x5401}, Allow},             // TCGETS
		{usual, "prlimit64", []uint64{0, 7, 1 << 40}, Allow},     // own, changed
		{usual, "prlimit64", []uint64{4242, 7, 1 << 40}, Refuse}, // another's: the pointer's low half is zero
		{usual, "prlimit64", []uint64{4242, 7, 0, 8}, Allow},     // another's, read
		{pidns, "prlimit64", []uint64{4242, 7, 8}, Allow},        //
		{usual, "setpriority", []uint64{0, 0}, Allow},            // nice
		{usual, "setpriority", []uint64{2, 0}, Refuse},           // PRIO_USER
		{pidns, "setpriority", []uint64{2, 0}, Refuse},           //
		{usual, "io_uring_setup", nil, Absent},                   // K-022
		{usual, "clone3", nil, Absent},                           //
		{usual, "fchmodat", nil, Allow},                          //
		{strict, "fchmodat", nil, Refuse},                        // K-028
		{strict, "fsetxattr", nil, Refuse},                       // K-028
		{strict, "utimensat", nil, Refuse},                       // K-028
		{strict, "ioctl", []uint64{3, 0x40086602}, Refuse},       // K-028: chattr
		{strict, "shmget", nil, Refuse},                          //
		{strict, "execve", nil, Allow},                           //
		{usual, "ptrace", nil, Allow},                            //
		{usual, "bpf", nil, Refuse},                              //
	} {
		for _, a := range []Arch{AMD64, ARM64} {
			row.spec.Arch = a
			nr, ok := a.Number(row.call)
			if !ok {
				t.Fatalf("%v has no %s", a, row.call)
			}
			if got := run(t, build(t, row.spec), a.Call(nr, row.args...)); got != row.want {
				t.Errorf("%+v %s %#x: %v, want %v", row.spec, row.call, row.args, got, row.want)
			}
		}
	}
}

// A name in an intent's list that no table has would be an intent that nobody checks.
func TestIntentsNameRealCalls(t *testing.T) {
	for n := range byGroup {
		_, x := AMD64.Number(n)
		_, y := ARM64.Number(n)
		if !x && !y {
			t.Errorf("intent for unknown call %q", n)
		}
	}
	for _, a := range []Arch{AMD64, ARM64} {
		for _, n := range a.names() {
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Error(fmt.Sprint(a, ": ", r))
					}
				}()
				intended(Spec{Arch: a}, n, [6]uint64{})
			}()
		}
	}
}
