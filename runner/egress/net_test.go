package egress

import (
	"errors"
	"fmt"
	"lockbox/test/needs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The addresses of the far side. Runs of the tests are allowed to reach open and open6, never shut and shut6.
var (
	open4 = netip.MustParseAddr("203.0.113.7")
	shut4 = netip.MustParseAddr("203.0.113.9")
	open6 = netip.MustParseAddr("2001:db8:7::7")
	shut6 = netip.MustParseAddr("2001:db8:7::9")
)

// testNet is two network namespaces with a veth pair between them: runs live in near, servers and a sniffer in far. Kernels
// without veth (it is a module) get one namespace in which the far addresses are local, by routes of type local.
type testNet struct {
	near, far *os.File
	remote    bool // veth
	tcpPort   uint16
	udpPort   uint16
	closers   []func() error
	sniffer   int
	seen      [2]atomic.Int64 // packets to the shut and to the open addresses
	accepted  atomic.Int64
	conns     chan net.Conn
	stop      chan struct{}
	done      chan struct{}
}

// inNetns runs f on a thread in the namespace.
func inNetns(ns *os.File, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("setns: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

func newNetns() (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- result{nil, fmt.Errorf("unshare: %w", err)}
			return
		}
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err == nil {
			err = linkUp("lo")
		}
		done <- result{f, err}
	}()
	r := <-done
	return r.f, r.err
}

func linkUp(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

func newTestNet() (n *testNet, err error) {
	n = &testNet{conns: make(chan net.Conn, 1024), stop: make(chan struct{}), done: make(chan struct{}), sniffer: -1}
	if n.near, err = newNetns(); err != nil {
		return nil, err
	}
	if n.far, err = newNetns(); err != nil {
		return nil, err
	}
	err = n.veth()
	n.remote = err == nil
	if errors.Is(err, unix.EOPNOTSUPP) {
		n.far.Close()
		n.far = n.near
		err = inNetns(n.near, n.anyIP)
	}
	if err != nil {
		return nil, err
	}
	err = inNetns(n.near, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0)
	})
	if err != nil {
		return nil, err
	}
	if err := inNetns(n.far, n.serve); err != nil {
		return nil, err
	}
	go n.sniff()
	return n, nil
}

func (n *testNet) veth() error {
	mac := []net.HardwareAddr{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}
	err := inNetns(n.near, func() error {
		v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "far0", PeerHardwareAddr: mac[1], PeerNamespace: netlink.NsFd(int(n.far.Fd()))}
		v.Name, v.HardwareAddr = "near0", mac[0]
		if err := netlink.LinkAdd(v); err != nil {
			return fmt.Errorf("add a veth pair: %w", err)
		}
		return addresses("near0", mac[1], []string{"203.0.113.1/24", "2001:db8:7::1/64"}, []string{"203.0.113.7", "203.0.113.9", "2001:db8:7::7", "2001:db8:7::9", "203.0.113.254", "2001:db8:7::fe"})
	})
	if err != nil {
		return err
	}
	return inNetns(n.far, func() error {
		return addresses("far0", mac[0], []string{"203.0.113.7/24", "203.0.113.9/24", "2001:db8:7::7/64", "2001:db8:7::9/64"}, []string{"203.0.113.1", "2001:db8:7::1"})
	})
}

// addresses configures a link; neighbours are static, so that no packet but the tests' is on the wire. The near side has
// default routes: any address can be tried.
func addresses(name string, peer net.HardwareAddr, own, neigh []string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, a := range own {
		addr, err := netlink.ParseAddr(a)
		if err != nil {
			return err
		}
		if addr.IP.To4() == nil {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(l, addr); err != nil {
			return fmt.Errorf("add %s: %w", a, err)
		}
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return err
	}
	for _, a := range neigh {
		err := netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(a), HardwareAddr: peer})
		if err != nil {
			return fmt.Errorf("set neighbour %s: %w", a, err)
		}
	}
	for _, gw := range []string{"203.0.113.254", "2001:db8:7::fe"} {
		if name != "near0" {
			break
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: net.ParseIP(gw)}); err != nil {
			return fmt.Errorf("add a default route by %s: %w", gw, err)
		}
	}
	return nil
}

func (n *testNet) anyIP() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, dst := range []string{"0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"} {
		_, p, _ := net.ParseCIDR(dst)
		r := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: p, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST}
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("route %s to lo: %w", dst, err)
		}
	}
	return nil
}

// serve opens the far side's sockets: TCP that accepts, UDP that swallows, and the sniffer.
func (n *testNet) serve() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_fastopen", []byte("1027"), 0); err != nil {
		return err
	}
	tcp, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		return err
	}
	n.closers = append(n.closers, tcp.Close)
	n.tcpPort = uint16(tcp.Addr().(*net.TCPAddr).Port)
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			n.accepted.Add(1)
			select {
			case n.conns <- c:
			default:
				c.Close()
			}
		}
	}()
	udp, err := net.ListenPacket("udp", "[::]:0")
	if err != nil {
		return err
	}
	n.closers = append(n.closers, udp.Close)
	n.udpPort = uint16(udp.LocalAddr().(*net.UDPAddr).Port)
	n.sniffer, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
	if err != nil {
		return err
	}
	tv := unix.Timeval{Usec: 50000}
	if err := unix.SetsockoptInt(n.sniffer, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
		return err
	}
	return unix.SetsockoptTimeval(n.sniffer, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// sniff counts packets to the two pairs of addresses.
func (n *testNet) sniff() {
	defer close(n.done)
	buf := make([]byte, 2048)
	for {
		select {
		case <-n.stop:
			return
		default:
		}
		k, _, err := unix.Recvfrom(n.sniffer, buf, 0)
		if err != nil {
			continue
		}
		switch dst := destination(buf[:k]); dst {
		case shut4, shut6:
			n.seen[0].Add(1)
		case open4, open6:
			n.seen[1].Add(1)
		}
	}
}

func destination(p []byte) netip.Addr {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(p[16:20]))
	case len(p) >= 40 && p[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(p[24:40]))
	}
	return netip.Addr{}
}

// arrived waits until a packet to the open (1) or shut (0) addresses came since the count before, or not.
func (n *testNet) arrived(which int, before int64, wait time.Duration) bool {
	for end := time.Now().Add(wait); ; time.Sleep(2 * time.Millisecond) {
		if n.seen[which].Load() > before {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

func (n *testNet) close() {
	close(n.stop)
	<-n.done
	for _, c := range n.closers {
		c()
	}
	syscall.Close(n.sniffer)
	close(n.conns)
	for c := range n.conns {
		c.Close()
	}
	n.near.Close()
	n.far.Close()
}

// drain closes the connections that the far side holds.
func (n *testNet) drain() {
	for {
		select {
		case c := <-n.conns:
			c.Close()
		default:
			return
		}
	}
}

// needVeth fails a test that is only worth something with a far end. Such tests are named TestHost…: the guests leave them out by
// that name.
func needVeth(t *testing.T) {
	t.Helper()
	if !host.net.remote {
		needs.Missing(t, "veth network interfaces", "run it on a host whose kernel has veth: make test")
	}
}
