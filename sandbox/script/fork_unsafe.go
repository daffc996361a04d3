package script

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const sysExecveat = unix.SYS_EXECVEAT

// cloneArgs is struct clone_args of clone3(2), Linux 5.7 (88 bytes).
type cloneArgs struct {
	flags, pidFD, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

func rawVfork(trap, a1, a2 uintptr) (r1, errno uintptr)

// ForkOptions says how the child is made.
type ForkOptions struct {
	Namespaces uintptr       // CLONE_NEW* flags
	CgroupFD   int           // directory of the cgroup (v2) to start in; -1 for the caller's
	Deadline   time.Duration // a child that has not exec'd by then is killed; zero means 10 s
	StopAt     int           // fault injection for tests: end the child before this step; -1 runs all
	// Hold, when not nil, is called with the pidfd as soon as the kernel has
	// filled it in, from another goroutine, while the child is in the window.
	Hold func(pidfd int)
}

// Child is a started process. The caller owns PidFD and must close it.
type Child struct {
	Pid   int
	PidFD int
}

// ErrDeadline says that the child did not reach its execve in time.
var ErrDeadline = errors.New("start deadline passed")

// fork is the only place where this process exists twice. Between entersyscall
// and exitsyscall nothing may grow the stack or need a P.
//
//go:norace
//go:nocheckptr
//go:noinline
func fork(f *frame) (pid, errno uintptr) {
	entersyscall()
	beforeFork()
	pid, errno = rawVfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&f.args)), unsafe.Sizeof(f.args))
	if errno == 0 && pid == 0 {
		afterForkInChild()
		step(f)
		for {
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 253, 0, 0)
		}
	}
	afterFork()
	exitsyscall()
	return pid, errno
}

// Fork starts a child that runs the script. It returns once the child has
// exec'd (the script's last step) or failed; a failure is a *[StepError] and the
// child is reaped. The calling thread sleeps in between, other goroutines run.
func (s *Script) Fork(o ForkOptions) (*Child, error) {
	f := s.frame()
	if o.StopAt >= 0 && o.StopAt < len(s.ops) {
		f.stop = uintptr(o.StopAt)
	}
	f.args = cloneArgs{
		flags:      unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND | uint64(o.Namespaces),
		pidFD:      uint64(uintptr(unsafe.Pointer(&f.pidfd))),
		exitSignal: uint64(syscall.SIGCHLD),
	}
	if o.CgroupFD >= 0 {
		f.args.flags |= unix.CLONE_INTO_CGROUP
		f.args.cgroup = uint64(o.CgroupFD)
	}
	late := watch(f, o)
	pid, errno := fork(f)
	expired := late()
	runtime.KeepAlive(s)
	if errno != 0 {
		return nil, cloneError(syscall.Errno(errno), o)
	}
	if err := s.result(f); err != nil || expired {
		reap(int(pid))
		unix.Close(int(f.pidfd))
		if expired {
			return nil, fmt.Errorf("start the child: %w (%s)", ErrDeadline, deadline(o))
		}
		return nil, err
	}
	return &Child{Pid: int(pid), PidFD: int(f.pidfd)}, nil
}

func deadline(o ForkOptions) time.Duration {
	if o.Deadline > 0 {
		return o.Deadline
	}
	return 10 * time.Second
}

// CloneError says that clone3 itself failed.
type CloneError struct {
	Errno      syscall.Errno
	Namespaces uintptr
	Cgroup     bool
}

func (e *CloneError) Error() string { return "clone3: " + e.Errno.Error() }
func (e *CloneError) Unwrap() error { return e.Errno }

func cloneError(e syscall.Errno, o ForkOptions) error {
	return &CloneError{Errno: e, Namespaces: o.Namespaces, Cgroup: o.CgroupFD >= 0}
}

// watch arms the start deadline, and calls Hold. The returned function disarms
// it, waits for Hold to return, and reports whether the deadline struck.
func watch(f *frame, o ForkOptions) func() bool {
	var struck bool
	done := make(chan struct{})
	t := time.AfterFunc(deadline(o), func() {
		defer close(done)
		if fd := loadFD(&f.pidfd); fd >= 0 {
			struck = true
			unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0)
		}
	})
	returned := make(chan struct{})
	var over atomic.Bool // clone3 has returned: with a pidfd, or never with one
	if o.Hold == nil {
		close(returned)
	} else {
		go func() {
			defer close(returned)
			for {
				// The kernel writes the number before there is a descriptor behind it.
				if fd := loadFD(&f.pidfd); fd >= 0 && unix.PidfdSendSignal(int(fd), 0, nil, 0) != unix.EBADF {
					o.Hold(int(fd))
					return
				}
				if over.Load() {
					return
				}
				time.Sleep(20 * time.Microsecond)
			}
		}()
	}
	return func() bool {
		over.Store(true)
		<-returned
		if t.Stop() {
			return false
		}
		<-done
		return struck
	}
}

// reap waits for a child that never became a program.
func reap(pid int) {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		if err != syscall.EINTR {
			return
		}
	}
}

// Exec runs the script on the calling thread and replaces the process: its last
// step is an execve. It returns only on failure; the thread may then be partly
// confined, so the process must exit at once. The thread stays locked.
func (s *Script) Exec() error {
	runtime.LockOSThread()
	f := s.frame()
	step(f)
	runtime.KeepAlive(s)
	if err := s.result(f); err != nil {
		return err
	}
	return os.NewSyscallError("execve", syscall.EINVAL)
}
