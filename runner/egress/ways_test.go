package egress

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWaysOut tries every way out to an address that no rule opens, and checks errno, counter and wire; then the same
// way works: to an address that a rule opens, or, where the socket itself is refused, outside the run. K-008 K-022
func TestWaysOut(t *testing.T) {
	n := host.net
	tcp4, tcp6, udp4, udp6 := pair(open4, shut4, n.tcpPort), pair(open6, shut6, n.tcpPort), pair(open4, shut4, n.udpPort), pair(open6, shut6, n.udpPort)
	run := startRun(t, openPolicy())
	free := startChild(t, nil, "")
	t.Cleanup(n.drain)
	for _, w := range []struct {
		op      string
		to      [2]netip.AddrPort // open, shut
		counter string
		outside bool          // the control runs outside: no rule opens this kind of socket
		absent  syscall.Errno // what the outside says where the kernel is built without
	}{
		{"tcp", tcp4, "connect4/no rule", false, 0},
		{"tcp", tcp6, "connect6/no rule", false, 0},
		{"mapped", tcp4, "connect6/no rule", false, 0},
		{"tfo", tcp4, "connect4/no rule", false, 0},
		{"tfo", tcp6, "connect6/no rule", false, 0},
		{"tfo-connect", tcp4, "connect4/no rule", false, 0},
		{"uring", tcp4, "connect4/no rule", false, 0},
		{"mptcp", tcp4, "socket/socket type", true, unix.EPROTONOSUPPORT},
		{"mptcp-tfo", tcp4, "socket/socket type", true, mptcpTFO()},
		{"sctp", tcp4, "socket/socket type", true, unix.EPROTONOSUPPORT},
		{"udp", udp4, "sendmsg4/no rule", false, 0},
		{"udp", udp6, "sendmsg6/no rule", false, 0},
		{"udp-mapped", udp4, "sendmsg4/no rule", false, 0},
		{"udp-v4on6", udp4, "sendmsg4/no rule", false, 0},
		{"udp-send", udp4, "connect4/no rule", false, 0},
		{"udp-send", udp6, "connect6/no rule", false, 0},
		{"sendmmsg", udp4, "sendmsg4/no rule", false, 0},
		{"sendmmsg", udp6, "sendmsg6/no rule", false, 0},
		{"udplite", udp4, "socket/socket type", true, unix.EPROTONOSUPPORT},
		{"ping", udp4, "socket/socket type", true, 0},
		{"raw-icmp", udp4, "socket/socket type", true, 0},
		{"raw-icmp", udp6, "socket/socket type", true, 0},
		{"raw-udp", udp4, "socket/socket type", true, 0},
		{"raw-header", udp4, "socket/socket type", true, 0},
	} {
		t.Run(w.op+"/"+w.to[1].Addr().String(), func(t *testing.T) {
			run.t, free.t = t, t
			control := run
			if w.outside {
				control = free
			}
			seenOpen := n.seen[1].Load()
			a := control.try(request{Op: w.op, Addr: w.to[0]})
			if w.absent != 0 && a.Errno == w.absent {
				// Not built: the run must not get further than the outside. Which of the two errors it sees, the kernel's order decides.
				if got := run.try(request{Op: w.op, Addr: w.to[1]}).Errno; got != unix.EPERM && got != w.absent {
					t.Errorf("%s: got %q", w.op, errnoText(got))
				}
				t.Logf("this kernel has no %s: %v", w.op, a.Errno)
				return
			}
			if a.Errno != 0 && !(w.op == "sctp" && a.Errno == unix.ECONNREFUSED) {
				t.Errorf("control %s to %v: %v", w.op, w.to[0], a.Errno)
			}
			if !n.arrived(1, seenOpen, 2*time.Second) {
				t.Errorf("control %s: no packet to %v", w.op, w.to[0])
			}
			before, seenShut := counts(t, run.run.id), n.seen[0].Load()
			run.want(request{Op: w.op, Addr: w.to[1]}, unix.EPERM)
			after := counts(t, run.run.id)
			if after[w.counter] != before[w.counter]+1 || total(after) != total(before)+1 {
				t.Errorf("%s: counters %v, before %v: want one more %q", w.op, after, before, w.counter)
			}
			if n.arrived(0, seenShut, 20*time.Millisecond) {
				t.Errorf("%s: a packet to %v was on the wire", w.op, w.to[1])
			}
		})
	}
}

// mptcpTFO: MPTCP is there since 5.6, its fast open since 6.2: then EOPNOTSUPP.
func mptcpTFO() syscall.Errno {
	fd, err := newSocket(unix.AF_INET, unix.SOCK_STREAM, ipprotoMPTCP)
	if err != nil {
		return unix.EPROTONOSUPPORT
	}
	unix.Close(fd)
	return unix.EOPNOTSUPP
}

func pair(open, shut netip.Addr, port uint16) [2]netip.AddrPort {
	return [2]netip.AddrPort{netip.AddrPortFrom(open, port), netip.AddrPortFrom(shut, port)}
}

func total(c map[string]uint64) (n uint64) {
	for _, v := range c {
		n += v
	}
	return n
}

// TestOptions: a packet with IP options is refused even to an open address, and the same packet passes outside. K-022
func TestOptions(t *testing.T) {
	run, free := startRun(t, openPolicy()), startChild(t, nil, "")
	q := request{Op: "options", Addr: netip.AddrPortFrom(open4, host.net.udpPort)}
	free.want(q, 0)
	run.want(request{Op: "udp", Addr: q.Addr}, 0)
	run.want(q, unix.EPERM)
	if c := counts(t, run.run.id); c["egress/packet"] != 1 {
		t.Errorf("counters: %v", c)
	}
}
