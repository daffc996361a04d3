package egress

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"lockbox/profiles"

	"golang.org/x/sys/unix"
)

// model is the decision written the slow way: the longest rule against the longest denial, the rule winning a tie; a pinned address
// only where there is no denial; port 53 never. The addresses of
// the host of the tests are denials too.
func model(rules []Rule, to netip.AddrPort, proto uint8) bool {
	addr := to.Addr().Unmap()
	longest := func(ps []netip.Prefix) int {
		best := -1
		for _, p := range ps {
			if p.Addr().Is4() == addr.Is4() && p.Contains(addr) {
				best = max(best, p.Bits())
			}
		}
		return best
	}
	var mine, pinned, denied []netip.Prefix
	for _, r := range rules {
		switch {
		case to.Port() == 53 || r.Proto != proto || (r.Port != to.Port() && r.Port != 0):
		case r.Pinned:
			pinned = append(pinned, r.Prefix)
		default:
			mine = append(mine, r.Prefix)
		}
	}
	for _, d := range profiles.Denials() {
		if !d.Prefix.Addr().Is4In6() {
			denied = append(denied, d.Prefix)
		}
	}
	addrs, err := hostAddrs()
	if err != nil {
		panic(err)
	}
	for _, a := range addrs {
		denied = append(denied, netip.PrefixFrom(a, a.BitLen()))
	}
	best := longest(mine)
	no := longest(denied)
	return (best >= 0 && best >= no) || (no < 0 && longest(pinned) >= 0)
}

// lpmRun is a run in a namespace without any route: what the hooks let pass fails with ENETUNREACH, and nothing is sent.
func lpmRun(t *testing.T, rules []Rule) *child {
	t.Helper()
	ns, err := newNetns()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	r := newCgroup(t)
	if err := host.set.Add(r.id, Policy{Rules: rules, UnixAny: true}); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, ns, r.dir)
	c.run = r
	return c
}

// asks returns whether the hook let it pass.
func asks(c *child, to netip.AddrPort, proto uint8) bool {
	c.t.Helper()
	op := "tcp-start"
	if proto == UDP {
		op = "udp"
	}
	return c.try(request{Op: op, Addr: to}).Errno != unix.EPERM
}

// TestLongestPrefix: the longer prefix wins, the run's rule wins a tie; no form of an address goes round that. K-008
func TestLongestPrefix(t *testing.T) {
	c := lpmRun(t, []Rule{
		{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Port: 443, Proto: TCP},
		{Prefix: netip.MustParsePrefix("::/0"), Port: 443, Proto: TCP},
		{Prefix: netip.MustParsePrefix("10.1.2.0/24"), Port: 0, Proto: TCP},
		{Prefix: netip.MustParsePrefix("172.16.0.0/12"), Port: 5432, Proto: TCP}, // a tie
		{Prefix: netip.MustParsePrefix("169.254.0.0/16"), Port: 443, Proto: TCP},
		{Prefix: netip.MustParsePrefix("192.168.0.0/15"), Port: 443, Proto: TCP}, // shorter than the denial
		{Prefix: netip.MustParsePrefix("1.1.1.1/32"), Port: 53, Proto: UDP},
		{Prefix: netip.MustParsePrefix("8.0.0.0/8"), Port: 0, Proto: UDP},
		{Prefix: netip.MustParsePrefix("fd12::/16"), Port: 443, Proto: TCP},
		{Prefix: netip.MustParsePrefix("9.9.9.9/32"), Port: 443, Proto: UDP, Pinned: true},
		{Prefix: netip.MustParsePrefix("169.254.169.254/32"), Port: 80, Proto: TCP, Pinned: true},
		{Prefix: netip.MustParsePrefix("10.9.9.9/32"), Port: 80, Proto: TCP, Pinned: true},
		{Prefix: netip.MustParsePrefix("10.1.2.99/32"), Port: 0, Proto: TCP, Pinned: true},
	})
	for _, l := range []struct {
		to    string
		proto uint8
		want  bool
	}{
		{"93.184.216.34:443", TCP, true},
		{"93.184.216.34:80", TCP, false},
		{"93.184.216.34:443", UDP, false},
		{"[::ffff:93.184.216.34]:443", TCP, true},
		{"[2606:4700::1]:443", TCP, true},
		{"[2606:4700::1]:444", TCP, false},
		{"10.0.0.1:443", TCP, false},
		{"10.1.1.255:443", TCP, false},
		{"10.1.2.0:443", TCP, true},
		{"10.1.2.255:1", TCP, true},
		{"10.1.2.7:53", TCP, false},
		{"10.1.3.0:443", TCP, false},
		{"[::ffff:10.1.2.3]:443", TCP, true},
		{"172.16.0.0:5432", TCP, true},
		{"172.31.255.255:5432", TCP, true},
		{"172.31.255.255:443", TCP, false},
		{"172.32.0.0:443", TCP, true},
		{"192.168.1.1:443", TCP, false},
		{"192.169.1.1:443", TCP, true},
		{"169.254.1.1:443", TCP, true},
		{"169.254.169.254:443", TCP, false}, // metadata needs its own rule
		{"[::ffff:169.254.169.254]:443", TCP, false},
		{"[64:ff9b::a9fe:a9fe]:443", TCP, false},
		{"[64:ff9b:1::a9fe:a9fe]:443", TCP, false},
		{"[2002:a9fe:a9fe::1]:443", TCP, false},
		{"[2001::a9fe:a9fe]:443", TCP, false},
		{"[::169.254.169.254]:443", TCP, false},
		{"[fd00:ec2::254]:443", TCP, false},
		{"[fd12::1]:443", TCP, true},
		{"[fd13::1]:443", TCP, false},
		{"[fe80::1]:443", TCP, false},
		{"0.0.0.0:443", TCP, false},
		{"0.1.2.3:443", TCP, false},
		{"100.64.0.1:443", TCP, false},
		{"255.255.255.255:443", TCP, false},
		{"224.0.0.251:5353", UDP, false},
		{"[ff02::fb]:5353", UDP, false},
		{"1.1.1.1:53", UDP, false}, // not even by its own rule
		{"1.1.1.1:53", TCP, false},
		{"1.1.1.2:53", UDP, false},
		{"8.8.8.8:53", UDP, false},
		{"8.8.8.8:443", UDP, true},
		{"127.0.0.1:443", TCP, false},
		{"[::1]:443", TCP, false},
		{"9.9.9.9:443", UDP, true}, // pinned
		{"9.9.9.10:443", UDP, false},
		{"169.254.169.254:80", TCP, false}, // pinned, and denied
		{"10.9.9.9:80", TCP, false},
		{"10.1.2.99:8080", TCP, true}, // pinned within a written rule
	} {
		if got := asks(c, netip.MustParseAddrPort(l.to), l.proto); got != l.want {
			t.Errorf("%s proto %d: let pass %v, want %v", l.to, l.proto, got, l.want)
		}
	}
}

// TestUDPConnectForTCP: resolvers connect UDP sockets to sort addresses; that is silent where TCP is allowed, and sends nothing.
func TestUDPConnectForTCP(t *testing.T) {
	a := startRun(t, Policy{Rules: []Rule{{Prefix: netip.PrefixFrom(open4, 32), Port: host.net.udpPort, Proto: TCP}}})
	to := netip.AddrPortFrom(open4, host.net.udpPort)
	a.want(request{Op: "udp-connect", Addr: to}, 0)
	before := host.net.seen[1].Load()
	a.want(request{Op: "udp-send", Addr: to}, unix.EPERM)
	a.want(request{Op: "udp", Addr: to}, unix.EPERM)
	if host.net.arrived(1, before, 0) {
		t.Error("a datagram was on the wire")
	}
	floor := "egress/no rule"
	if !host.net.remote {
		floor = "egress/loopback"
	}
	if c := counts(t, a.run.id); c[floor] != 1 || c["sendmsg4/no rule"] != 1 || len(c) != 2 {
		t.Errorf("counters: %v", c)
	}
}

// TestModel: the kernel's verdict equals the model's over random rules and destinations. K-008
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	c := lpmRun(t, nil)
	allowed, cases := 0, 0
	for range 10 {
		rules := randomRules(rng, 12)
		setRules(t, c.run.id, rules)
		for range 300 {
			to, proto := randomTo(rng, rules)
			want := model(rules, to, proto)
			if got := asks(c, to, proto); got != want {
				t.Errorf("%v proto %d: the kernel lets pass %v, the model %v, rules %v", to, proto, got, want, rules)
			}
			cases++
			if want {
				allowed++
			}
		}
	}
	if allowed < cases/10 || allowed > cases*9/10 {
		t.Errorf("%d of %d allowed: the cases say little", allowed, cases)
	}
	t.Logf("%d cases, %d allowed", cases, allowed)
}

// TestHostEgressModel: the floor alone gives the same answers: sockets are connected under one policy and send under another.
//
// It needs veth, which the guests have not; there every address is the host's own, and TestWaysOut and TestRemoveCuts cover the floor.
func TestHostEgressModel(t *testing.T) {
	needVeth(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	c := startRun(t, Policy{})
	cases, allowed := 0, 0
	for range 5 {
		rules := randomRules(rng, 12)
		var to []netip.AddrPort
		var open []Rule
		for len(to) < 100 {
			a, proto := randomTo(rng, rules)
			if proto == UDP && a.Port() != 53 && !near(a.Addr()) {
				to = append(to, a)
				open = append(open, Rule{Prefix: netip.PrefixFrom(a.Addr().Unmap(), a.Addr().Unmap().BitLen()), Port: a.Port(), Proto: UDP})
			}
		}
		setRules(t, c.run.id, open)
		fds := make([]int, len(to))
		for i, a := range to {
			if got := c.try(request{Op: "udp-keep", Addr: a}); got.Errno == 0 {
				fds[i] = got.N
			} else if got.Errno == unix.EPERM {
				t.Fatalf("connect to %v: %v", a, got.Errno)
			}
		}
		setRules(t, c.run.id, rules)
		for i, fd := range fds {
			if fd == 0 {
				continue // broadcast and the like
			}
			want := model(rules, to[i], UDP)
			if got := c.try(request{Op: "write", FD: fd}).Errno != unix.EPERM; got != want {
				t.Errorf("%v: egress lets pass %v, the model %v, rules %v", to[i], got, want, rules)
			}
			c.want(request{Op: "close", FD: fd}, 0)
			cases++
			if want {
				allowed++
			}
		}
	}
	t.Logf("%d cases, %d allowed", cases, allowed)
}

// near: addresses that are the test network's own.
func near(a netip.Addr) bool {
	a = a.Unmap()
	return netip.MustParsePrefix("203.0.113.0/24").Contains(a) || netip.MustParsePrefix("2001:db8:7::/64").Contains(a)
}

func setRules(t *testing.T, id uint64, rules []Rule) {
	t.Helper()
	if err := host.set.Remove(id); err != nil {
		t.Fatal(err)
	}
	if err := host.set.Add(id, Policy{Rules: rules, UnixAny: true}); err != nil {
		t.Fatal(err)
	}
}

var ports = []uint16{0, 53, 80, 443, 5432}

// randomRules are near the built-in denials, some a bit longer and some a bit shorter.
func randomRules(rng *rand.Rand, n int) []Rule {
	rules := []Rule{{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Port: ports[rng.IntN(5)], Proto: TCP}, {Prefix: netip.MustParsePrefix("::/0"), Port: ports[rng.IntN(5)], Proto: UDP}}
	for len(rules) < n {
		p := randomPrefix(rng)
		bits := min(max(p.Bits()+rng.IntN(9)-4, 0), p.Addr().BitLen())
		if rng.IntN(3) == 0 {
			bits = p.Addr().BitLen()
		}
		p = netip.PrefixFrom(inside(rng, p), bits).Masked()
		rules = append(rules, Rule{Prefix: p, Port: ports[rng.IntN(5)], Proto: []uint8{TCP, UDP}[rng.IntN(2)], Pinned: p.IsSingleIP() && rng.IntN(3) > 0})
	}
	return rules
}

func randomPrefix(rng *rand.Rand) netip.Prefix {
	table := profiles.Denials()
	for {
		if p := table[rng.IntN(len(table))].Prefix; !p.Addr().Is4In6() {
			return p
		}
	}
}

// inside is a random address of the prefix, or one of its ends.
func inside(rng *rand.Rand, p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	fill := rng.IntN(4)
	for i := p.Bits(); i < len(b)*8; i++ {
		if bit := byte(0x80 >> (i % 8)); fill == 0 || (fill > 1 && rng.IntN(2) == 0) {
			b[i/8] |= bit
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// randomTo is in, or just beside, a rule or a denial; IPv4 sometimes in its mapped form. Loopback has tests of its own.
func randomTo(rng *rand.Rand, rules []Rule) (netip.AddrPort, uint8) {
	for {
		r := rules[rng.IntN(len(rules))]
		p := r.Prefix
		if rng.IntN(3) == 0 {
			p = randomPrefix(rng)
		}
		a := inside(rng, p)
		switch rng.IntN(6) {
		case 0:
			a = a.Next()
		case 1:
			a = a.Prev()
		}
		if !a.IsValid() || a.IsLoopback() || a.IsUnspecified() || a.Is4In6() {
			continue
		}
		if a.Is4() && rng.IntN(4) == 0 {
			a = netip.AddrFrom16(a.As16())
		}
		port, proto := r.Port, r.Proto
		if rng.IntN(3) == 0 || port == 0 {
			port = ports[1+rng.IntN(4)]
		}
		if rng.IntN(4) == 0 {
			proto = []uint8{TCP, UDP}[rng.IntN(2)]
		}
		return netip.AddrPortFrom(a, port), proto
	}
}

// TestRuleForms: a rule that says nothing is refused, and leaves nothing behind.
func TestRuleForms(t *testing.T) {
	for _, l := range []struct {
		rule Rule
		ok   bool
	}{
		{Rule{}, false},
		{Rule{Prefix: netip.MustParsePrefix("1.0.0.0/8")}, false},
		{Rule{Prefix: netip.MustParsePrefix("1.0.0.0/8"), Proto: 132}, false},
		{Rule{Prefix: netip.MustParsePrefix("1.2.3.4/8"), Proto: TCP}, true}, // masked
		{Rule{Prefix: netip.MustParsePrefix("1.2.3.4/32"), Proto: TCP, Pinned: true}, true},
		{Rule{Prefix: netip.MustParsePrefix("1.2.3.4/31"), Proto: TCP, Pinned: true}, false},
		{Rule{Prefix: netip.PrefixFrom(netip.MustParseAddr("::ffff:1.2.3.4"), 104), Proto: TCP}, true},
		{Rule{Prefix: netip.PrefixFrom(netip.MustParseAddr("fe80::1"), 200), Proto: TCP}, false},
	} {
		t.Run(fmt.Sprint(l.rule), func(t *testing.T) {
			r := newCgroup(t)
			err := host.set.Add(r.id, Policy{Rules: []Rule{l.rule}, UnixAny: true})
			if (err == nil) != l.ok {
				t.Errorf("got %v, want ok %v", err, l.ok)
			}
			if runs, _ := host.set.Runs(); !l.ok && slices.Contains(runs, r.id) {
				t.Error("a refused entry left something behind")
			}
		})
	}
}
