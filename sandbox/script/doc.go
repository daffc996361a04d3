// Package script runs a short, prebuilt list of system calls in a new child
// between clone and execve, or on the calling thread before an execve in place.
//
// A [Script] is built in the parent with a [Builder]: every path, structure and
// flag is laid out in memory beforehand, so that the child only issues raw
// system calls. The child shares the parent's memory (CLONE_VM|CLONE_VFORK), so
// a failure comes back as data (step, errno) without a pipe:
//
//	b := script.NewBuilder()
//	b.Call("setsid", unix.SYS_SETSID)
//	b.Exec("/bin/true", []string{"true"}, nil)
//	child, err := b.Script().Fork(script.ForkOptions{CgroupFD: -1})
//
//	parent                                child
//	------                                -----
//	entersyscall (the P is given up)
//	block signals
//	clone3(VM|VFORK|PIDFD|…)  ─────────►  default signal handlers, own mask
//	  (this thread sleeps)                step 0 … step n-1, raw system calls
//	                                      execve ── or ── store (step, errno), exit_group
//	restore signals         ◄─────────
//	exitsyscall
//	read (step, errno)
//
// The thread that forks sleeps in the kernel until the child execs or exits, but
// it holds no P and no lock, so a child that is stopped in this window (SIGSTOP
// by its own user, an exec from a hung file system) stops nobody else; a
// deadline kills it by its pidfd.
//
// Needs Linux 5.9 (close_range; clone3 is 5.3, CLONE_INTO_CGROUP 5.7) and the
// three runtime hooks that the Go runtime keeps stable for this purpose
// (syscall.runtime_BeforeFork, AfterFork, AfterForkInChild) with
// runtime.entersyscall and exitsyscall.
//
// # What it does not restrict
//
// Nothing by itself: the steps do. A caller must never set PR_SET_DUMPABLE back
// to 1 while children may be in the window: the child may already have another
// uid while it still shares this process's memory.
package script
