package egress

import (
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
)

// probeArg as argv[0] makes this executable the probe: it is started by Open, does what is asked on its standard input, and can do nothing
// that its caller could not.
const probeArg = "lockbox: egress probe"

const (
	trySocket  = 's'
	tryRaw     = 'r'
	tryTCP     = 't'
	tryTCP6    = 'T'
	tryUDP     = 'u'
	tryUDPOut  = 'o'
	tryUDPOut6 = 'O'
	tryBind    = 'b'
	tryBind6   = 'B'
	tryUnix    = 'x'
)

var tries = map[byte]string{
	trySocket:  "make a TCP socket",
	tryRaw:     "make a raw socket",
	tryTCP:     "connect to a server of this host",
	tryTCP6:    "connect to 2001:db8::1",
	tryUDP:     "send to a socket of this host",
	tryUDPOut:  "send to 192.0.2.1",
	tryUDPOut6: "send to 2001:db8::1",
	tryBind:    "bind port 9 of every address",
	tryBind6:   "bind port 9 of every IPv6 address",
	tryUnix:    "connect to a Unix socket",
}

func init() {
	if len(os.Args) == 3 && os.Args[0] == probeArg {
		os.Exit(probeMain(os.Args[1], os.Args[2]))
	}
}

func probeMain(tcp, udp string) int {
	tcpPort, err1 := strconv.Atoi(tcp)
	udpPort, err2 := strconv.Atoi(udp)
	if err1 != nil || err2 != nil {
		return 2
	}
	var b [1]byte
	for {
		if _, err := io.ReadFull(os.Stdin, b[:]); err != nil {
			return 0
		}
		var errno syscall.Errno
		if err := attempt(b[0], tcpPort, udpPort); err != nil && !errors.As(err, &errno) {
			return 2
		}
		if _, err := os.Stdout.Write([]byte{byte(errno)}); err != nil {
			return 0
		}
	}
}

var (
	home  = [4]byte{127, 0, 0, 1}
	away  = [4]byte{192, 0, 2, 1}                   // RFC 5737
	away6 = [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1} // RFC 3849
)

func attempt(try byte, tcp, udp int) error {
	family, typ, proto := syscall.AF_INET, syscall.SOCK_STREAM, 0
	switch try {
	case tryRaw:
		typ, proto = syscall.SOCK_RAW, syscall.IPPROTO_ICMP
	case tryUDP, tryUDPOut:
		typ = syscall.SOCK_DGRAM
	case tryUDPOut6:
		family, typ = syscall.AF_INET6, syscall.SOCK_DGRAM
	case tryTCP6, tryBind6:
		family = syscall.AF_INET6
	case tryUnix:
		family = syscall.AF_UNIX
	}
	fd, err := syscall.Socket(family, typ|syscall.SOCK_CLOEXEC, proto)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	// A connect that only egress refuses would hang.
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &syscall.Timeval{Sec: 2}); err != nil {
		return err
	}
	one := []byte{0}
	switch try {
	case tryTCP:
		return syscall.Connect(fd, &syscall.SockaddrInet4{Addr: home, Port: tcp})
	case tryTCP6:
		return syscall.Connect(fd, &syscall.SockaddrInet6{Addr: away6, Port: 9})
	case tryUDP:
		return syscall.Sendto(fd, one, 0, &syscall.SockaddrInet4{Addr: home, Port: udp})
	case tryUDPOut:
		return syscall.Sendto(fd, one, 0, &syscall.SockaddrInet4{Addr: away, Port: 9})
	case tryUDPOut6:
		return syscall.Sendto(fd, one, 0, &syscall.SockaddrInet6{Addr: away6, Port: 9})
	case tryBind:
		return syscall.Bind(fd, &syscall.SockaddrInet4{Port: 9})
	case tryBind6:
		return syscall.Bind(fd, &syscall.SockaddrInet6{Port: 9})
	case tryUnix:
		return syscall.Connect(fd, &syscall.SockaddrUnix{Name: "/lockbox-egress-probe-no-such-socket"})
	}
	return nil
}
