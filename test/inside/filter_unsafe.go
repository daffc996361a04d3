package inside

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func sti(fd int) error {
	b := byte('x')
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&b)))
	if errno != 0 {
		return errno
	}
	return nil
}

// answer WHAT CMD…: as a kernel that lacks something, by a filter that answers
// for it. WHAT is landlock (ENOSYS, as without CONFIG_SECURITY_LANDLOCK) or
// seccomp (PR_GET_SECCOMP gives EINVAL, prctl(2)).
func answer(args []string) int {
	runtime.LockOSThread()
	const ret = unix.BPF_RET | unix.BPF_K
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	skip := func(k uint32, jf uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: jf, K: k}
	}
	allow := unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW}
	prog := []unix.SockFilter{allow}
	switch args[0] {
	case "landlock":
		prog = []unix.SockFilter{load(0), skip(unix.SYS_LANDLOCK_CREATE_RULESET, 1), {Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}, allow}
	case "seccomp":
		prog = []unix.SockFilter{load(0), skip(unix.SYS_PRCTL, 3), load(16), skip(unix.PR_GET_SECCOMP, 1), {Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)}, allow}
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&fprog)), 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	return execute(args[1:])
}
