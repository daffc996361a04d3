package egress

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFlood: 20,000 refusals are counted one by one; the ring may lose events, and says how many. K-025
func TestFlood(t *testing.T) {
	const n = 20000
	run := startRun(t, Policy{})
	ring, err := host.set.Watch(run.run.id, os.Getpagesize())
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	if a := run.want(request{Op: "flood", Addr: netip.AddrPortFrom(shut4, 9), N: n}, 0); a.N != n {
		t.Errorf("%d refusals, want %d", a.N, n)
	}
	list, lost, err := host.set.Counters(run.run.id)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].N != n {
		t.Errorf("counters %v, want %d", list, n)
	}
	read := uint64(0)
	for {
		if _, err := ring.Read(time.Now().Add(-time.Second)); err != nil {
			break
		}
		read++
	}
	if lost == 0 || read == 0 || read+lost != n {
		t.Errorf("%d events read, %d lost: want the sum %d and neither 0", read, lost, n)
	}
}

// TestParallelFlood: two runs at once, several processes each: the counters are apart and exact.
func TestParallelFlood(t *testing.T) {
	const n = 2000
	a, b := startRun(t, Policy{}), startRun(t, Policy{})
	children := []*child{a, b, startChild(t, nil, a.run.dir), startChild(t, nil, a.run.dir), startChild(t, nil, b.run.dir)}
	done := make(chan answer)
	for i, c := range children {
		addr := netip.AddrPortFrom(shut4, 9)
		if i%2 == 1 {
			addr = netip.AddrPortFrom(shut6, 9)
		}
		go func() { done <- c.try(request{Op: "flood", Addr: addr, N: n}) }()
	}
	for range children {
		if got := <-done; got.N != n || got.Errno != 0 {
			t.Errorf("%+v", got)
		}
	}
	if c := counts(t, a.run.id); total(c) != 3*n {
		t.Errorf("run a: %v, want %d", c, 3*n)
	}
	if c := counts(t, b.run.id); total(c) != 2*n {
		t.Errorf("run b: %v, want %d", c, 2*n)
	}
}

// TestEvents: an event names run, process, hook, reason and destination. K-025
func TestEvents(t *testing.T) {
	run := startRun(t, openPolicy())
	ring, err := host.set.Watch(run.run.id, 65536)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	shut := netip.AddrPortFrom(shut4, 8443)
	meta := netip.MustParseAddrPort("169.254.169.254:80")
	shut6 := netip.AddrPortFrom(shut6, 8443)
	run.want(request{Op: "tcp", Addr: shut}, unix.EPERM)
	run.want(request{Op: "udp", Addr: meta}, unix.EPERM)
	run.want(request{Op: "tcp", Addr: shut6}, unix.EPERM)
	run.want(request{Op: "raw-icmp", Addr: shut}, unix.EPERM)
	for _, want := range []struct {
		hook, reason, builtin string
		dst                   netip.AddrPort
		proto                 uint8
	}{
		{"connect4", "no rule", "builtin:documentation", shut, TCP},
		{"sendmsg4", "no rule", "builtin:metadata", meta, UDP},
		{"connect6", "no rule", "builtin:documentation", shut6, TCP},
		{"socket", "socket type", "", netip.AddrPort{}, unix.IPPROTO_ICMP},
	} {
		e, err := ring.Read(time.Now().Add(2 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if e.Run != run.run.id || int(e.PID) != run.cmd.Process.Pid || e.UID != 0 || e.Comm == "" || e.Hook.String() != want.hook ||
			e.Reason.String() != want.reason || DenialID(e) != want.builtin || e.Dst != want.dst || e.Proto != want.proto {
			t.Errorf("got %+v (%s), want %+v of pid %d", e, DenialID(e), want, run.cmd.Process.Pid)
		}
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil || time.Duration(now.Nano())-e.Boot > time.Minute {
			t.Errorf("time %v, now %v", e.Boot, now)
		}
	}
	if _, err := ring.Read(time.Now()); err == nil {
		t.Error("one event too many")
	}
}
