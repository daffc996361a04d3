package seccomp

import "fmt"

// Action is what the filter returns to the kernel (SECCOMP_RET_*, the errno in the low 16 bits).
// The zero value is SECCOMP_RET_KILL_THREAD: a filter that forgot to decide kills.
type Action uint32

// Actions used by the policy.
const (
	KillProcess Action = 0x80000000
	Allow       Action = 0x7fff0000
	Refuse      Action = retErrno | 1  // EPERM
	Absent      Action = retErrno | 38 // ENOSYS: as if the kernel had no such call, so programs fall back
)

const retErrno = 0x00050000

// Errno returns the error number the caller sees, or 0 if the action is not an error.
func (a Action) Errno() int {
	if a&0xffff0000 == retErrno {
		return int(a & 0xffff)
	}
	return 0
}

// String names the action: "allow", "EPERM", "ENOSYS", "kill".
func (a Action) String() string {
	switch a {
	case Allow:
		return "allow"
	case Refuse:
		return "EPERM"
	case Absent:
		return "ENOSYS"
	case KillProcess:
		return "kill"
	}
	if e := a.Errno(); e != 0 {
		return fmt.Sprintf("errno(%d)", e)
	}
	return fmt.Sprintf("action(%#x)", uint32(a))
}
