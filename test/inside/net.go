package inside

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

func sockaddr(s string) (unix.Sockaddr, int) {
	a := netip.MustParseAddrPort(s)
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, unix.AF_INET
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}, unix.AF_INET6
}

// connect ADDR N: connects so often over TCP; prints the last errno.
func connect(args []string) int {
	sa, family := sockaddr(args[0])
	var last error
	for range number(args[1]) {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			tv := unix.Timeval{Sec: 2}
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv)
			err = unix.Connect(fd, sa)
			unix.Close(fd)
		}
		last = err
	}
	fmt.Println("connect", args[0], Errno(last))
	return 0
}

// send ADDR N: sends so many datagrams; prints the last errno.
func send(args []string) int {
	sa, family := sockaddr(args[0])
	var last error
	for range number(args[1]) {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Sendto(fd, []byte("x"), 0, sa)
			unix.Close(fd)
		}
		last = err
	}
	fmt.Println("send", args[0], Errno(last))
	return 0
}

// bind ADDR N
func bind(args []string) int {
	sa, family := sockaddr(args[0])
	var last error
	for range number(args[1]) {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			if err = unix.Bind(fd, sa); err == nil {
				err = unix.Listen(fd, 1)
			}
			unix.Close(fd)
		}
		last = err
	}
	fmt.Println("bind", args[0], Errno(last))
	return 0
}

// serve: a server on loopback and its client, both of this run.
func serve([]string) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println("serve", Errno(err))
		return 1
	}
	go func() {
		c, err := l.Accept()
		if err == nil {
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	c, err := net.DialTimeout("tcp", l.Addr().String(), 2*time.Second)
	if err != nil {
		fmt.Println("serve", Errno(err))
		return 1
	}
	b, err := io.ReadAll(c)
	fmt.Printf("serve %s %s\n", Errno(err), b)
	return 0
}

// serve-later MS: serve after so long.
func serveLater(args []string) int {
	sleep(args)
	return serve(nil)
}
