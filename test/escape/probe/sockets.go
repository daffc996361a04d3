package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	protoSCTP = 132
	protoDCCP = 33
)

// K-008, K-022, K-023, L-040: sockets.
var socketProbes = []probe{
	{"tcp", func(t *target) error { return connect(unix.AF_INET, unix.SOCK_STREAM, 0, in4(t.TCP4)) }},
	{"tcp6", func(t *target) error { return connect(unix.AF_INET6, unix.SOCK_STREAM, 0, in6(t.TCP6)) }},
	{"tcp-mapped", func(t *target) error { return connect(unix.AF_INET6, unix.SOCK_STREAM, 0, mapped(t.TCP4)) }},
	{"tcp-metadata", func(t *target) error { // the address of cloud metadata services
		if !t.Metadata {
			return errText("not-tried")
		}
		return connect(unix.AF_INET, unix.SOCK_STREAM, 0, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{169, 254, 169, 254}})
	}},
	{"mptcp", func(t *target) error { return connect(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, in4(t.TCP4)) }},
	{"tcp-fastopen", func(t *target) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		if err := unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN|unix.MSG_NOSIGNAL, in4(t.TCP4)); err != nil {
			return err
		}
		return echo(fd)
	}},
	{"tcp-fastopen-connect", func(t *target) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1); err != nil {
			return err
		}
		if err := unix.Connect(fd, in4(t.TCP4)); err != nil {
			return err
		}
		if _, err := unix.Write(fd, []byte("x")); err != nil {
			return err
		}
		return echo(fd)
	}},
	{"udp", func(t *target) error { return udp(unix.AF_INET, in4(t.UDP4)) }},
	{"udp-mapped", func(t *target) error { return udp(unix.AF_INET6, mapped(t.UDP4)) }},
	{"udp-connected", func(t *target) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		if err := unix.Connect(fd, in4(t.UDP4)); err != nil {
			return err
		}
		if _, err := unix.Write(fd, []byte("x")); err != nil {
			return err
		}
		return echo(fd)
	}},
	{"sctp", func(t *target) error { return connect(unix.AF_INET, unix.SOCK_STREAM, protoSCTP, in4(t.TCP4)) }},
	{"dccp", func(*target) error { return socket(unix.AF_INET, unix.SOCK_DCCP, protoDCCP) }},
	{"listen-unbound", func(*target) error { return listen("listen-unbound", false) }},
	{"listen-bound", func(*target) error { return listen("listen-bound", true) }},

	{"unix-tmp", func(t *target) error { return connectUnix(unix.SOCK_STREAM, t.UnixTmp) }},
	{"unix-run", func(t *target) error { return connectUnix(unix.SOCK_STREAM, t.UnixRun) }},
	{"unix-outside", func(t *target) error { return connectUnix(unix.SOCK_STREAM, t.UnixDir) }},
	{"unix-dgram", func(t *target) error { return connectUnix(unix.SOCK_DGRAM, t.UnixDgram) }},
	{"unix-procfd", func(t *target) error {
		fd, err := unix.Open(t.UnixDir, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return connectUnix(unix.SOCK_STREAM, fmt.Sprintf("/proc/self/fd/%d", fd))
	}},
	{"unix-symlink", func(t *target) error {
		link := t.mine(unique("sock"))
		if err := unix.Symlink(t.UnixDir, link); err != nil {
			return err
		}
		return connectUnix(unix.SOCK_STREAM, link)
	}},
	{"unix-abstract", func(t *target) error { return connectUnix(unix.SOCK_STREAM, "@"+t.Abstract) }},
	{"unix-bind-outside", func(t *target) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrUnix{Name: t.file(unique("b"))})
	}},

	{"vsock", func(*target) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
	{"netlink-route", func(*target) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) }},
	{"netlink-diag", func(*target) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG) }},
	{"netlink-uevent", func(*target) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT) }},
	{"netlink-audit", func(*target) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT) }},
	{"netlink-netfilter", func(*target) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER) }},
	{"netlink-generic", func(*target) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC) }},
	{"raw", func(*target) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP) }},
	{"raw6", func(*target) error { return socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_UDP) }},
	{"packet", func(*target) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
	{"xdp", func(*target) error { return socket(unix.AF_XDP, unix.SOCK_RAW, 0) }},
	{"icmp", func(*target) error { return socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP) }},
	{"alg", func(*target) error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }},
	{"family-other", func(*target) error {
		for af := 3; af < 64; af++ {
			switch af {
			case unix.AF_INET6, unix.AF_NETLINK:
				continue
			}
			for _, typ := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
				if err := socket(af, typ, 0); err == nil {
					return nil
				} else if err == unix.EPERM || err == unix.EACCES {
					continue
				}
			}
		}
		return unix.EPERM
	}},
}

func in4(port int) unix.Sockaddr {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

func in6(port int) unix.Sockaddr {
	return &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}
}

func mapped(port int) unix.Sockaddr {
	return &unix.SockaddrInet6{Port: port, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}
}

func socket(family, typ, proto int) error {
	fd, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func connect(family, typ, proto int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, to)
}

func connectUnix(typ int, path string) error {
	if path == "" {
		return errText("no-victim")
	}
	return connect(unix.AF_UNIX, typ, 0, &unix.SockaddrUnix{Name: path})
}

// udp sends and waits for the victim's echo: in a namespace of its own a datagram is accepted and goes nowhere.
func udp(family int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Sendto(fd, []byte("x"), 0, to); err != nil {
		return err
	}
	return echo(fd)
}

// echo waits for one byte from the victim.
func echo(fd int) error {
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 400_000}); err != nil {
		return err
	}
	n, _, err := unix.Recvfrom(fd, make([]byte, 8), 0)
	if err == unix.EAGAIN || err == nil && n == 0 {
		return errText("no-reply")
	}
	return err
}

// listen opens a listener on loopback and asks the test to connect to it from outside.
func listen(name string, bind bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if bind {
		if err := unix.Bind(fd, in4(0)); err != nil {
			return err
		}
	}
	if err := unix.Listen(fd, 1); err != nil {
		return err
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	emit(result{Name: name, Port: sa.(*unix.SockaddrInet4).Port})
	for range 60 {
		if c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC); err == nil {
			return unix.Close(c)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errText("no-connection")
}
