package seccomp

// rule gives the outcome of some calls in the default policy, and in strict where that differs.
type rule struct {
	usual  func(*builder) *node
	strict func(*builder) *node // nil: as usual
	names  []string
}

var (
	allow  = (*builder).allow
	refuse = (*builder).refuse
	absent = (*builder).absent
)

// rules is the policy: each call of both architectures once (a test sees to it). Allowed is what works on the caller's own
// descriptors, memory, threads and children, or what another layer decides: paths (Landlock, mounts),
// destinations (namespace, cgroup programs), signals and ptrace (scopes, pid namespace).
var rules = []rule{
	// Descriptors: read, write, wait, copy.
	{usual: allow, names: []string{
		"read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2",
		"lseek", "sendfile", "splice", "tee", "vmsplice", "copy_file_range", "readahead", "fadvise64", "cachestat",
		"fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "fallocate", "ftruncate", "flock",
		"close", "close_range", "dup", "dup2", "dup3", "fcntl", "pipe", "pipe2",
		"poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2",
		"eventfd", "eventfd2", "signalfd", "signalfd4", "timerfd_create", "timerfd_settime", "timerfd_gettime",
		"memfd_create", "memfd_secret", "inotify_init", "inotify_init1", "inotify_rm_watch",
	}},
	// Paths: Landlock and the mounts decide.
	{usual: allow, names: []string{
		"open", "openat", "openat2", "creat", "stat", "fstat", "lstat", "newfstatat", "statx", "statfs", "fstatfs",
		"access", "faccessat", "faccessat2", "readlink", "readlinkat", "getdents", "getdents64", "getcwd", "chdir", "fchdir",
		"mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat",
		"truncate", "umask", "getxattr", "lgetxattr", "fgetxattr", "getxattrat", "listxattr", "llistxattr", "flistxattr", "listxattrat",
		"file_getattr",
	}},
	// Metadata: Landlock does not see it. A read-only mount tree does; where there is none, strict closes it.
	{usual: allow, strict: refuse, names: []string{
		"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
		"utime", "utimes", "futimesat", "utimensat", "file_setattr",
		"setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
	}},
	{usual: (*builder).mknod, names: []string{"mknod"}},
	{usual: (*builder).mknodat, names: []string{"mknodat"}},
	// A watch shows activity in directories that may not be read.
	{usual: allow, strict: refuse, names: []string{"inotify_add_watch"}},
	{usual: (*builder).ioctl, strict: (*builder).ioctlStrict, names: []string{"ioctl"}},

	// Memory.
	{usual: allow, names: []string{
		"brk", "mmap", "munmap", "mremap", "mprotect", "madvise", "msync", "mincore", "mseal", "remap_file_pages", "map_shadow_stack",
		"mlock", "mlock2", "munlock", "mlockall", "munlockall", "pkey_alloc", "pkey_free", "pkey_mprotect",
		"mbind", "get_mempolicy", "set_mempolicy", "set_mempolicy_home_node", "membarrier",
	}},
	// Pages of a process by pid.
	{usual: (*builder).self, names: []string{"move_pages", "migrate_pages"}},

	// Processes and threads. clone3 keeps its flags in memory, out of a filter's sight; libc falls back to clone.
	{usual: allow, names: []string{
		"fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid",
		"getpid", "getppid", "gettid", "getpgid", "getpgrp", "setpgid", "getsid", "setsid", "set_tid_address",
		"pidfd_open", "kill", "tkill", "tgkill", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
		"prctl", "arch_prctl", "rseq", "rseq_slice_yield", "set_robust_list", "get_robust_list", "getcpu",
		"futex", "futex_waitv", "futex_wake", "futex_wait", "futex_requeue", "restart_syscall",
		"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend", "sigaltstack", "pause",
	}},
	{usual: (*builder).clone, names: []string{"clone"}},
	{usual: absent, names: []string{"clone3"}},
	{usual: refuse, names: []string{"unshare", "setns"}},
	// Answers which namespaces there are; programs read /proc instead.
	{usual: absent, names: []string{"listns"}},
	// Debuggers need these for their own children. Both ask the kernel's ptrace check, which Landlock and pid namespaces answer for others.
	{usual: allow, strict: refuse, names: []string{"ptrace", "process_vm_readv", "process_vm_writev"}},
	// Ways into another process that programs do without.
	{usual: refuse, names: []string{"pidfd_getfd", "kcmp", "process_madvise", "process_mrelease"}},
	{usual: (*builder).personality, strict: (*builder).personalityStrict, names: []string{"personality"}},
	// The kernel calls these from the stubs that a tracer of the host puts into programs (6.11, 6.18).
	{usual: allow, names: []string{"uretprobe", "uprobe"}},

	// Ids and capabilities: no_new_privs and empty sets leave them nothing to gain.
	{usual: allow, names: []string{
		"getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups",
		"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups",
		"capget", "capset", "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
		"lsm_get_self_attr", "lsm_list_modules",
	}},
	{usual: refuse, names: []string{"lsm_set_self_attr"}},

	// Scheduling and limits: the caller's own.
	{usual: allow, names: []string{
		"sched_yield", "sched_getparam", "sched_getscheduler", "sched_getaffinity", "sched_getattr", "sched_get_priority_max",
		"sched_get_priority_min", "sched_rr_get_interval", "getpriority", "ioprio_get", "getrlimit", "setrlimit", "getrusage", "times", "sysinfo", "uname",
	}},
	{usual: (*builder).self, names: []string{"sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"}},
	{usual: (*builder).prlimit, names: []string{"prlimit64"}},
	{usual: (*builder).setpriority, names: []string{"setpriority"}},
	{usual: (*builder).ioprioSet, names: []string{"ioprio_set"}},

	// Time: read and wait.
	{usual: allow, names: []string{
		"time", "gettimeofday", "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "alarm", "getitimer", "setitimer",
		"timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete", "getrandom",
	}},
	// adjtimex and clock_adjtime also read, but the word that tells is in memory.
	{usual: refuse, names: []string{"settimeofday", "clock_settime", "adjtimex", "clock_adjtime"}},

	// Sockets: destinations are another layer's.
	{usual: allow, names: []string{
		"connect", "bind", "listen", "accept", "accept4", "getsockname", "getpeername", "getsockopt", "shutdown", "recvfrom", "recvmsg", "recvmmsg",
	}},
	{usual: (*builder).socket, names: []string{"socket"}},
	{usual: (*builder).socketpair, names: []string{"socketpair"}},
	{usual: (*builder).flagsArg3, names: []string{"sendto", "sendmmsg"}},
	{usual: (*builder).flagsArg2, names: []string{"sendmsg"}},
	{usual: (*builder).setsockopt, names: []string{"setsockopt"}},

	// IPC that is shared by everybody in an IPC namespace.
	{usual: (*builder).ipc, strict: refuse, names: []string{
		"shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl",
		"mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
	}},

	// Asynchronous I/O. io_uring does calls that no filter sees (a netlink socket, tested), so it looks absent.
	{usual: allow, strict: absent, names: []string{"io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents"}},
	{usual: absent, names: []string{"io_uring_setup", "io_uring_enter", "io_uring_register"}},

	// Opened by name.
	{usual: (*builder).keyring, names: []string{"add_key", "request_key", "keyctl"}},
	{usual: (*builder).perf, names: []string{"perf_event_open"}},
	{usual: (*builder).userfaultfd, names: []string{"userfaultfd"}},

	// Mounts and roots. statmount and listmount only tell; libmount reads /proc/self/mountinfo instead.
	{usual: refuse, names: []string{
		"mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "mount_setattr",
		"fsopen", "fsconfig", "fsmount", "fspick",
	}},
	{usual: absent, names: []string{"statmount", "listmount"}},
	// Files by handle pass every check of the path.
	{usual: refuse, names: []string{"name_to_handle_at", "open_by_handle_at", "fanotify_init", "fanotify_mark"}},
	// The machine.
	{usual: refuse, names: []string{
		"bpf", "reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "swapon", "swapoff",
		"acct", "quotactl", "quotactl_fd", "syslog", "vhangup", "sethostname", "setdomainname", "iopl", "ioperm", "modify_ldt",
	}},
	// Gone or never there in Linux 6.1 and newer, or replaced for decades.
	{usual: absent, names: []string{
		"uselib", "ustat", "sysfs", "_sysctl", "lookup_dcookie", "nfsservctl", "create_module", "get_kernel_syms", "query_module",
		"getpmsg", "putpmsg", "afs_syscall", "tuxcall", "security", "vserver", "epoll_ctl_old", "epoll_wait_old",
		"set_thread_area", "get_thread_area",
	}},
}
