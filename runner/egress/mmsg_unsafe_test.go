package egress

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	_   uint32 // bytes sent; the kernel writes it
	_   uint32
}

// sendmmsg sends two datagrams in one call.
func sendmmsg(q request) (int, error) {
	fd, err := newSocket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	sa := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: htons(q.Addr.Port()), Addr: q.Addr.Addr().As16()}
	b := byte('x')
	iov := unix.Iovec{Base: &b}
	iov.SetLen(1)
	var msgs [2]mmsghdr
	for i := range msgs {
		msgs[i].hdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&sa)), Namelen: uint32(unsafe.Sizeof(sa)), Iov: &iov}
		msgs[i].hdr.SetIovlen(1)
	}
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&msgs)), uintptr(len(msgs)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
