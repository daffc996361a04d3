package main

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const cloneIntoCgroup = 0x200000000 // since 5.7

func errOf(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func sys(nr, a, b, c, d, e uintptr) error {
	_, _, errno := unix.Syscall6(nr, a, b, c, d, e, 0)
	return errOf(errno)
}

func fchmodat2(path string, mode uint32) error {
	const nr = 452 // since 6.6, one number on every architecture
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	dir := unix.AT_FDCWD
	return sys(nr, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(mode), unix.AT_SYMLINK_NOFOLLOW, 0)
}

func sigqueue(pid int, sig unix.Signal) error {
	// struct siginfo: signo, errno, code (SI_QUEUE = -1), padding, then pid and uid, in 128 bytes.
	info := [32]int32{0: int32(sig), 2: -1, 4: int32(unix.Getpid()), 5: int32(unix.Getuid())}
	return sys(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(sig), uintptr(unsafe.Pointer(&info)), 0, 0)
}

func ioprio(pid int) error {
	const who, class = 1, 2 << 13 // a process; best effort, level 0
	return sys(unix.SYS_IOPRIO_SET, who, uintptr(pid), class, 0, 0)
}

func ptraceSeize(pid int) error {
	return sys(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0)
}

// ptraceLeave stops the victim and lets it go; a tracer that just ends does the same.
func ptraceLeave(pid int) error {
	if err := sys(unix.SYS_PTRACE, unix.PTRACE_INTERRUPT, uintptr(pid), 0, 0, 0); err != nil {
		return err
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

func vmRead(pid int, addr uint64, b []byte) error {
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}
	_, err := unix.ProcessVMReadv(pid, local, remote, 0)
	return err
}

func kcmp(a, b int) error {
	const vm = 1
	return sys(unix.SYS_KCMP, uintptr(a), uintptr(b), vm, 0, 0)
}

// addressOf is where s lies in this process.
func addressOf(s []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&s[0]))) }

func ioUringSetup() error {
	var params [120]byte
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 2, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func userfaultfd() error {
	const userModeOnly = 1
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, userModeOnly|unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func bpf(cmd uintptr, attr unsafe.Pointer, size uintptr) error {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(attr), size)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func bpfMap() error {
	attr := [16]uint32{unix.BPF_MAP_TYPE_ARRAY, 4, 4, 1}
	return bpf(unix.BPF_MAP_CREATE, unsafe.Pointer(&attr), 32)
}

func bpfProg() error {
	insns := [2]uint64{0xb7, 0x95} // r0 = 0; exit
	license := [4]byte{'G', 'P', 'L'}
	attr := struct {
		typ, n         uint32
		insns, license uint64
		pad            [5]uint64
	}{unix.BPF_PROG_TYPE_SOCKET_FILTER, 2, uint64(uintptr(unsafe.Pointer(&insns))), uint64(uintptr(unsafe.Pointer(&license))), [5]uint64{}}
	err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(&insns)
	runtime.KeepAlive(&license)
	return err
}

func quotactl() error {
	// Q_SYNC of everything: allowed to everyone where the filter lets it through.
	const qSync = 0x800001 << 8
	return sys(unix.SYS_QUOTACTL, qSync, 0, 0, 0, 0)
}

func kexecUnload() error { return sys(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0, 0) }

func tiocsti(fd int) error {
	c := byte('\n')
	return sys(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)), 0, 0)
}

func tioclinux(fd int) error {
	const tioclinux = 0x541c
	c := byte(6) // TIOCL_GETSHIFTSTATE
	return sys(unix.SYS_IOCTL, uintptr(fd), tioclinux, uintptr(unsafe.Pointer(&c)), 0, 0)
}

func mqOpen(name string, flags int) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(p)), uintptr(flags), 0o600, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func mqUnlink(name string) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	return sys(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(p)), 0, 0, 0, 0)
}

func msgSend(id int) error {
	const noWait = 0o4000
	buf := struct {
		typ  int64
		text [8]byte
	}{typ: 1}
	return sys(unix.SYS_MSGSND, uintptr(id), uintptr(unsafe.Pointer(&buf)), 1, noWait, 0)
}

func semValue(id int) error {
	const getval = 12
	return sys(unix.SYS_SEMCTL, uintptr(id), 0, getval, 0, 0)
}

func ipcMake(nr uintptr, a, b uintptr) (int, error) {
	const key = 0 // IPC_PRIVATE
	id, _, errno := unix.Syscall(nr, key, a, b)
	if errno != 0 {
		return -1, errno
	}
	return int(id), nil
}

func ipcRemove(t *target) {
	const rmid = 0
	unix.SysvShmCtl(t.Shm, unix.IPC_RMID, nil)
	sys(unix.SYS_MSGCTL, uintptr(t.Msg), rmid, 0, 0, 0)
	sys(unix.SYS_SEMCTL, uintptr(t.Sem), 0, rmid, 0, 0)
}

func rawSetresuid(id uintptr) error { return oneThread(unix.SYS_SETRESUID, id, id, id) }
func rawSetresgid(id uintptr) error { return oneThread(unix.SYS_SETRESGID, id, id, id) }
func rawSetgroups() error           { return oneThread(unix.SYS_SETGROUPS, 0, 0, 0) }

// oneThread does a call that changes only the calling thread.
func oneThread(nr, a, b, c uintptr) error {
	return locked(func() error {
		_, _, errno := unix.RawSyscall(nr, a, b, c)
		return errOf(errno)
	})
}

// clone3 forks by it; the child ends at once and runs no Go code.
func clone3(flags uint64, cgroup int) error {
	runtime.LockOSThread()
	args := [11]uint64{0: flags, 4: uint64(unix.SIGCHLD)}
	if cgroup >= 0 {
		args[10] = uint64(cgroup)
	}
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return reap(int(pid))
}

func reap(pid int) error {
	var ws unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &ws, 0, nil); err != unix.EINTR {
			return err
		}
	}
}
