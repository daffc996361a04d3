// Package seccomp compiles the system-call policy of a run into a classic BPF filter.
//
//	f, err := seccomp.Build(seccomp.Spec{Arch: seccomp.AMD64, AllowInet: true, SysVIPC: true})
//	prog := f.Prog() // for seccomp(SECCOMP_SET_MODE_FILTER), after no_new_privs
//
// The policy is the table in rules.go: every system call of the architecture by name, allowed, refused
// (EPERM), absent (ENOSYS), or decided by its arguments (args.go). A call that the table does not name,
// and every number the table's kernel does not know, is absent, so a newer kernel opens nothing. A call made
// through another architecture's entry (int 0x80, x32) kills the process: its numbers mean other calls.
//
// Build is pure. The filter is an interval tree over the call numbers with shared blocks behind it, since
// the kernel emulates a filter once per number when it is loaded (the action cache, since 5.11), and each load costs.
// The filter needs Linux 4.14 (SECCOMP_RET_KILL_PROCESS); the numbers are those of Linux 7.0 and older.
//
// # What it does not restrict
//
// It sees numbers and registers, not memory: no path, no address, no struct. Files are Landlock's and the mounts',
// destinations are the network namespace's or the cgroup programs', and signals, ptrace and process_vm_readv
// towards others are closed by Landlock's scopes or a pid namespace (ptrace of own children is allowed in the
// default policy, for debuggers). It cannot tell the caller's own pid from another one: a call that changes
// a process by pid takes only 0, unless Spec.OwnPidNS says that no other process can be named.
// A setuid bit given by open(2)'s mode is not seen.
package seccomp
