package seccomp

import "golang.org/x/sys/unix"

// Prog returns the filter as the kernel's type. The slice is new; it must stay reachable until seccomp(2) has returned.
func (f Filter) Prog() []unix.SockFilter {
	out := make([]unix.SockFilter, len(f))
	for i, in := range f {
		out[i] = unix.SockFilter{Code: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return out
}
