package egress

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func at(addr string, port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(port))
}

// TestLoopbackTCP: a run reaches the servers that it started itself, not another run's and not the host's, whatever name
// loopback has; nobody listening is a refusal too. K-008
func TestLoopbackTCP(t *testing.T) {
	a, b, free := startRun(t, Policy{}), startRun(t, Policy{}), startChild(t, nil, "")
	for _, c := range []struct{ listen, connect string }{
		{"127.0.0.1", "127.0.0.1"},
		{"127.0.0.5", "127.0.0.5"},
		{"127.0.0.1", "0.0.0.0"}, // the kernel makes 127.0.0.1 of it
		{"127.0.0.1", "::ffff:127.0.0.1"},
		{"::1", "::1"},
		{"::1", "::"},
	} {
		t.Run(c.listen+" by "+c.connect, func(t *testing.T) {
			a.t, b.t, free.t = t, t, t
			own := a.want(request{Op: "listen", Addr: at(c.listen, 0)}, 0).N
			theirs := b.want(request{Op: "listen", Addr: at(c.listen, 0)}, 0).N
			hosts := free.want(request{Op: "listen", Addr: at(c.listen, 0)}, 0).N
			talk(a, c.connect, own)
			talk(b, c.connect, theirs)
			a.want(request{Op: "tcp", Addr: at(c.connect, theirs&0xffff)}, unix.EPERM)
			a.want(request{Op: "tcp", Addr: at(c.connect, hosts&0xffff)}, unix.EPERM)
			a.want(request{Op: "tcp", Addr: at(c.connect, 1)}, unix.EPERM)
			free.want(request{Op: "tcp", Addr: at(c.connect, hosts&0xffff)}, 0)
			a.want(request{Op: "close", FD: own >> 16}, 0)
			b.want(request{Op: "close", FD: theirs >> 16}, 0)
			free.want(request{Op: "close", FD: hosts >> 16}, 0)
		})
	}
}

// talk connects to the child's own listener and sends a byte each way.
func talk(c *child, addr string, listener int) {
	c.t.Helper()
	client := c.want(request{Op: "tcp-keep", Addr: at(addr, listener&0xffff)}, 0).N
	server := c.want(request{Op: "accept", FD: listener >> 16}, 0).N
	for _, way := range [][2]int{{client, server}, {server, client}} {
		c.want(request{Op: "write", FD: way[0]}, 0)
		if a := c.want(request{Op: "read", FD: way[1]}, 0); a.N != 1 {
			c.t.Errorf("read %d bytes, want 1", a.N)
		}
	}
	// The peer closes: what is written then must draw a reset, not hang.
	c.want(request{Op: "close", FD: server}, 0)
	c.want(request{Op: "write", FD: client}, 0)
	c.want(request{Op: "write", FD: client}, unix.EPIPE)
	c.want(request{Op: "close", FD: client}, 0)
}

// TestLoopbackWildcard: a server on every address is reached over loopback by its own run only.
func TestLoopbackWildcard(t *testing.T) {
	a, b := startRun(t, Policy{OwnNet: true}), startRun(t, Policy{})
	for _, c := range []struct{ listen, connect string }{{"0.0.0.0", "127.0.0.1"}, {"::", "127.0.0.1"}, {"::", "::1"}} {
		l := a.want(request{Op: "listen", Addr: at(c.listen, 18080)}, 0).N
		talk(a, c.connect, l)
		b.want(request{Op: "tcp", Addr: at(c.connect, 18080)}, unix.EPERM)
		a.want(request{Op: "close", FD: l >> 16}, 0)
	}
}

// TestLoopbackUDP: the receiver's cgroup decides, also for the reply to a socket that never bound.
func TestLoopbackUDP(t *testing.T) {
	a, b, free := startRun(t, Policy{}), startRun(t, Policy{}), startChild(t, nil, "")
	for _, addr := range []string{"127.0.0.1", "::1"} {
		server := a.want(request{Op: "bind-udp", Addr: at(addr, 0)}, 0).N
		client := a.want(request{Op: "udp-keep", Addr: at(addr, server&0xffff)}, 0).N
		a.want(request{Op: "write", FD: client}, 0)
		a.want(request{Op: "recv-reply", FD: server >> 16}, 0)
		a.want(request{Op: "recv", FD: client}, 0)
		b.want(request{Op: "udp", Addr: at(addr, server&0xffff)}, unix.EPERM)
		b.want(request{Op: "udp-send", Addr: at(addr, server&0xffff)}, unix.EPERM)
		a.want(request{Op: "udp", Addr: at(addr, 1)}, unix.EPERM)
		hosts := free.want(request{Op: "bind-udp", Addr: at(addr, 0)}, 0).N
		a.want(request{Op: "udp", Addr: at(addr, hosts&0xffff)}, unix.EPERM)
		free.want(request{Op: "udp", Addr: at(addr, hosts&0xffff)}, 0)
	}
}

// TestLoopbackRule: no rule opens a port of the host; a network namespace of its own makes loopback the run's.
func TestLoopbackRule(t *testing.T) {
	free := startChild(t, nil, "")
	hosts := free.want(request{Op: "listen", Addr: at("127.0.0.1", 0)}, 0).N
	udp := free.want(request{Op: "bind-udp", Addr: at("127.0.0.1", 0)}, 0).N
	for _, p := range []string{"127.0.0.1/32", "127.0.0.0/8", "0.0.0.0/0"} {
		c := startRun(t, Policy{Rules: []Rule{{Prefix: netip.MustParsePrefix(p), Proto: TCP}, {Prefix: netip.MustParsePrefix(p), Proto: UDP}}})
		c.want(request{Op: "tcp", Addr: at("127.0.0.1", hosts&0xffff)}, unix.EPERM)
		c.want(request{Op: "udp", Addr: at("127.0.0.1", udp&0xffff)}, unix.EPERM)
	}
	c := startRun(t, Policy{OwnNet: true})
	c.want(request{Op: "tcp", Addr: at("127.0.0.1", hosts&0xffff)}, 0)
	c.want(request{Op: "tcp", Addr: at("127.0.0.1", 1)}, unix.ECONNREFUSED)
	c.want(request{Op: "udp", Addr: at("127.0.0.1", udp&0xffff)}, 0)
	c.want(request{Op: "tcp", Addr: netip.AddrPortFrom(shut4, host.net.tcpPort)}, unix.EPERM)
}

// TestLoopbackReusePort: a run that binds a host service's port beside it gets none of the host's clients, and its own
// clients never reach the host's service.
func TestLoopbackReusePort(t *testing.T) {
	a, free := startRun(t, Policy{}), startChild(t, nil, "")
	l := free.want(request{Op: "listen", Addr: at("127.0.0.1", 0), N: 1}, 0).N
	a.want(request{Op: "listen", Addr: at("127.0.0.1", l&0xffff), N: 1}, 0)
	for range 20 {
		a.try(request{Op: "tcp-start", Addr: at("127.0.0.1", l&0xffff)})
	}
	free.want(request{Op: "accept", FD: l >> 16}, unix.EAGAIN)
}

// TestListen: a port must be listed to be bound beyond loopback, its clients get replies, and it is no way out. K-008
func TestListen(t *testing.T) {
	a := startRun(t, Policy{Listen: []uint16{18081}})
	for _, any := range []string{"0.0.0.0", "::"} {
		for udp := range 2 {
			a.want(request{Op: "bind", Addr: at(any, 18081), N: udp}, 0)
			a.want(request{Op: "bind", Addr: at(any, 18082), N: udp}, unix.EPERM)
			a.want(request{Op: "bind", Addr: at(any, 18080), N: udp}, unix.EPERM)
			a.want(request{Op: "bind", Addr: at(any, 0), N: udp}, 0)
		}
	}
	a.want(request{Op: "bind", Addr: at("::ffff:127.0.0.1", 18082)}, 0)
	if c := counts(t, a.run.id); c["bind4/listen"] != 4 || c["bind6/listen"] != 4 {
		t.Errorf("counters: %v", c)
	}
	free := startChild(t, host.net.far, "")
	near := "203.0.113.1"
	if !host.net.remote {
		near = "203.0.113.7"
	}
	l := a.want(request{Op: "listen", Addr: at("0.0.0.0", 18081)}, 0).N
	client := free.want(request{Op: "tcp-keep", Addr: at(near, 18081)}, 0).N
	server := a.want(request{Op: "accept", FD: l >> 16}, 0).N
	a.want(request{Op: "write", FD: server}, 0)
	free.want(request{Op: "read", FD: client}, 0)
	a.want(request{Op: "tcp", Addr: netip.AddrPortFrom(shut4, host.net.tcpPort)}, unix.EPERM)

	// A server on a port of the kernel's choice exists, but nobody outside gets an answer.
	l = a.want(request{Op: "listen", Addr: at("0.0.0.0", 0)}, 0).N
	before := counts(t, a.run.id)
	free.want(request{Op: "tcp-start", Addr: at(near, l&0xffff)}, 0)
	a.want(request{Op: "accept", FD: l >> 16}, unix.EAGAIN)
	after := counts(t, a.run.id)
	if total(after) == total(before) {
		t.Errorf("the reply was not refused: %v", after)
	}
}

// TestHostAddress: an address of this host other than loopback is opened only by its whole name.
func TestHostAddress(t *testing.T) {
	needVeth(t)
	free := startChild(t, nil, "")
	l := free.want(request{Op: "listen", Addr: at("203.0.113.1", 0)}, 0).N
	u := free.want(request{Op: "bind-udp", Addr: at("203.0.113.1", 0)}, 0).N
	policy := func(p string) Policy {
		return Policy{Rules: []Rule{{Prefix: netip.MustParsePrefix(p), Proto: TCP}, {Prefix: netip.MustParsePrefix(p), Proto: UDP}}}
	}
	whole, wide := startRun(t, policy("203.0.113.1/32")), startRun(t, policy("203.0.113.0/30"))
	whole.want(request{Op: "tcp", Addr: at("203.0.113.1", l&0xffff)}, 0)
	whole.want(request{Op: "udp", Addr: at("203.0.113.1", u&0xffff)}, 0)
	wide.want(request{Op: "udp", Addr: at("203.0.113.1", u&0xffff)}, unix.EPERM)
	if c := counts(t, wide.run.id); c["egress/loopback"] != 1 {
		t.Errorf("counters: %v", c)
	}
}
