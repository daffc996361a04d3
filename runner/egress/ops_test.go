package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Numbers that x/sys does not have for every kernel.
const (
	ipprotoMPTCP   = 262
	ipprotoUDPLite = 136
	ipprotoSCTP    = 132
)

// ops are the ways out that a child tries. Each cleans up, unless its name says that it keeps the socket (it returns the fd).
var ops = map[string]func(request) (int, error){
	"socket":      func(q request) (int, error) { return 0, closing(newSocket(unix.AF_INET, unix.SOCK_STREAM, 0)) },
	"tcp":         func(q request) (int, error) { return 0, closing(tcpConnect(q.Addr, unix.IPPROTO_TCP)) },
	"tcp-keep":    func(q request) (int, error) { return tcpConnect(q.Addr, unix.IPPROTO_TCP) },
	"tcp-start":   tcpStart,
	"mapped":      func(q request) (int, error) { return 0, closing(mappedConnect(q.Addr)) },
	"tfo":         func(q request) (int, error) { return 0, fastOpen(q.Addr, unix.IPPROTO_TCP) },
	"tfo-connect": tfoConnect,
	"mptcp":       func(q request) (int, error) { return 0, closing(tcpConnect(q.Addr, ipprotoMPTCP)) },
	"mptcp-tfo":   func(q request) (int, error) { return 0, fastOpen(q.Addr, ipprotoMPTCP) },
	"sctp":        func(q request) (int, error) { return 0, closing(tcpConnect(q.Addr, ipprotoSCTP)) },
	"udp":         func(q request) (int, error) { return 0, sendTo(q.Addr, unix.SOCK_DGRAM, unix.IPPROTO_UDP) },
	"udp-mapped":  udpMapped,
	"udp-v4on6":   udpV4on6,
	"udp-connect": func(q request) (int, error) { return 0, closing(udpConnect(q.Addr)) },
	"udp-send":    udpConnectSend,
	"udp-keep":    func(q request) (int, error) { return udpConnect(q.Addr) },
	"sendmmsg":    sendmmsg,
	"udplite":     func(q request) (int, error) { return 0, sendTo(q.Addr, unix.SOCK_DGRAM, ipprotoUDPLite) },
	"ping":        ping,
	"raw-icmp":    rawICMP,
	"raw-udp":     func(q request) (int, error) { return 0, sendTo(q.Addr, unix.SOCK_RAW, unix.IPPROTO_UDP) },
	"raw-header":  rawHeader,
	"write":       func(q request) (int, error) { return unix.Write(q.FD, make([]byte, max(q.N, 1))) },
	"read":        readSome,
	"close":       func(q request) (int, error) { return 0, unix.Close(q.FD) },
	"listen":      listen,
	"accept":      accept,
	"bind-udp":    bindUDP,
	"recv-reply":  recvReply,
	"recv":        recv,
	"bind":        bindOnly,
	"flood":       flood,
	"unix":        unixConnect,
	"unix-dgram":  unixSend,
	"unix-listen": unixListen,
	"abstract":    abstractConnect,
	"options":     ipOptions,
	"open":        openSet,
	"move":        move,
}

func newSocket(family, typ, proto int) (int, error) {
	return unix.Socket(family, typ|unix.SOCK_CLOEXEC, proto)
}

func closing(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func family(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}

func tcpConnect(a netip.AddrPort, proto int) (int, error) {
	fd, err := newSocket(family(a.Addr()), unix.SOCK_STREAM, proto)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, sockaddr(a)); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// tcpStart begins to connect and tells what the hook said: EINPROGRESS and a missing route mean that it let it pass.
func tcpStart(q request) (int, error) {
	fd, err := newSocket(family(q.Addr.Addr()), unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return 0, passed(unix.Connect(fd, sockaddr(q.Addr)))
}

func passed(err error) error {
	for _, e := range []syscall.Errno{unix.EINPROGRESS, unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EINVAL, unix.EACCES, unix.EADDRNOTAVAIL, unix.ECONNREFUSED} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

func mapped(a netip.AddrPort) *unix.SockaddrInet6 {
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}

func mappedConnect(a netip.AddrPort) (int, error) {
	fd, err := newSocket(unix.AF_INET6, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, mapped(a)); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

func fastOpen(a netip.AddrPort, proto int) error {
	fd, err := newSocket(family(a.Addr()), unix.SOCK_STREAM, proto)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, sockaddr(a))
}

func tfoConnect(q request) (int, error) {
	fd, err := newSocket(family(q.Addr.Addr()), unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1); err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, sockaddr(q.Addr)); err != nil {
		return 0, err
	}
	return unix.Write(fd, []byte("x"))
}

func sendTo(a netip.AddrPort, typ, proto int) error {
	fd, err := newSocket(family(a.Addr()), typ, proto)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if typ == unix.SOCK_RAW {
		a = netip.AddrPortFrom(a.Addr(), 0)
	}
	return unix.Sendto(fd, make([]byte, 16), 0, sockaddr(a))
}

func udpMapped(q request) (int, error) {
	fd, err := newSocket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return 0, unix.Sendto(fd, []byte("x"), 0, mapped(q.Addr))
}

// udpV4on6 gives an IPv6 socket an AF_INET address, which sendmsg takes.
func udpV4on6(q request) (int, error) {
	fd, err := newSocket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return 0, unix.Sendto(fd, []byte("x"), 0, sockaddr(q.Addr))
}

func udpConnect(a netip.AddrPort) (int, error) {
	fd, err := newSocket(family(a.Addr()), unix.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, sockaddr(a)); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

func udpConnectSend(q request) (int, error) {
	fd, err := udpConnect(q.Addr)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return unix.Write(fd, []byte("x"))
}

func ping(q request) (int, error) {
	fd, err := newSocket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return 0, unix.Sendto(fd, []byte{8, 0, 0, 0, 0, 0, 0, 0}, 0, sockaddr(netip.AddrPortFrom(q.Addr.Addr(), 0)))
}

func rawICMP(q request) (int, error) {
	proto, msg := unix.IPPROTO_ICMP, []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}
	if q.Addr.Addr().Is6() {
		proto, msg = unix.IPPROTO_ICMPV6, []byte{128, 0, 0, 0, 0, 0, 0, 0}
	}
	fd, err := newSocket(family(q.Addr.Addr()), unix.SOCK_RAW, proto)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return 0, unix.Sendto(fd, msg, 0, sockaddr(netip.AddrPortFrom(q.Addr.Addr(), 0)))
}

func rawHeader(q request) (int, error) {
	fd, err := newSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	p := make([]byte, 28)
	p[0], p[3], p[8], p[9] = 0x45, 28, 64, unix.IPPROTO_UDP
	copy(p[16:], q.Addr.Addr().AsSlice())
	p[20], p[22], p[23], p[25] = 0x30, byte(q.Addr.Port()>>8), byte(q.Addr.Port()), 8
	return 0, unix.Sendto(fd, p, 0, sockaddr(netip.AddrPortFrom(q.Addr.Addr(), 0)))
}

func timeout(fd int, d time.Duration) error {
	tv := unix.NsecToTimeval(int64(d))
	return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
}

func readSome(q request) (int, error) {
	if err := timeout(q.FD, 2*time.Second); err != nil {
		return 0, err
	}
	return unix.Read(q.FD, make([]byte, 1024))
}

// listen returns fd<<16 | port.
func listen(q request) (int, error) {
	fd, err := newSocket(family(q.Addr.Addr()), unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	if q.N == 1 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return 0, err
		}
	}
	return named(fd, q.Addr, func() error { return unix.Listen(fd, 16) })
}

func bindUDP(q request) (int, error) {
	fd, err := newSocket(family(q.Addr.Addr()), unix.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	return named(fd, q.Addr, func() error { return nil })
}

func named(fd int, a netip.AddrPort, then func() error) (int, error) {
	if err := unix.Bind(fd, sockaddr(a)); err != nil {
		unix.Close(fd)
		return 0, err
	}
	if err := then(); err != nil {
		unix.Close(fd)
		return 0, err
	}
	port, err := portOf(fd)
	return fd<<16 | port, err
}

func portOf(fd int) (int, error) {
	sa, err := unix.Getsockname(fd)
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return sa.Port, nil
	case *unix.SockaddrInet6:
		return sa.Port, nil
	}
	return 0, err
}

func bindOnly(q request) (int, error) {
	typ := unix.SOCK_STREAM
	if q.N == 1 {
		typ = unix.SOCK_DGRAM
	}
	fd, err := newSocket(family(q.Addr.Addr()), typ, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return 0, unix.Bind(fd, sockaddr(q.Addr))
}

func accept(q request) (int, error) {
	if err := timeout(q.FD, 2*time.Second); err != nil {
		return 0, err
	}
	fd, _, err := unix.Accept4(q.FD, unix.SOCK_CLOEXEC)
	return fd, err
}

// recvReply answers one datagram.
func recvReply(q request) (int, error) {
	if err := timeout(q.FD, 2*time.Second); err != nil {
		return 0, err
	}
	buf := make([]byte, 64)
	n, from, err := unix.Recvfrom(q.FD, buf, 0)
	if err != nil {
		return 0, err
	}
	return n, unix.Sendto(q.FD, buf[:n], 0, from)
}

func recv(q request) (int, error) { return readSome(q) }

// flood is N refused connects.
func flood(q request) (int, error) {
	fd, err := newSocket(family(q.Addr.Addr()), unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for i := range q.N {
		if err := unix.Connect(fd, sockaddr(q.Addr)); !errors.Is(err, unix.EPERM) {
			return i, fmt.Errorf("connect %d: %w", i, err)
		}
	}
	return q.N, nil
}

func unixConnect(q request) (int, error) {
	fd, err := newSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return 0, unix.Connect(fd, &unix.SockaddrUnix{Name: q.Path})
}

func abstractConnect(q request) (int, error) {
	q.Path = "@" + q.Path
	return unixConnect(q)
}

func unixSend(q request) (int, error) {
	fd, err := newSocket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return 0, unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrUnix{Name: q.Path})
}

func unixListen(q request) (int, error) {
	fd, err := newSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: q.Path}); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, unix.Listen(fd, 8)
}

// ipOptions sends a datagram with a record-route option: the floor does not read past options.
func ipOptions(q request) (int, error) {
	fd, err := newSocket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, string([]byte{7, 7, 4, 0, 0, 0, 0, 1})); err != nil {
		return 0, err
	}
	return 0, unix.Sendto(fd, []byte("x"), 0, sockaddr(q.Addr))
}

// openSet is a loader that exits afterwards.
func openSet(q request) (int, error) {
	parent, dir, _ := strings.Cut(q.Path, " ")
	s, err := Open(parent, dir)
	if err != nil {
		return 0, fmt.Errorf("open: %s", err) // no errno
	}
	return 0, s.Close()
}

// move puts this process into another cgroup.
func move(q request) (int, error) {
	return 0, os.WriteFile(filepath.Join(q.Path, "cgroup.procs"), []byte("0"), 0)
}
