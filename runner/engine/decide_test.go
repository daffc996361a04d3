package engine_test

import (
	"encoding/gob"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/runner/engine"
	"lockbox/test/apart"
	"lockbox/test/needs"
)

// seedVar repeats a run.
const seedVar = "LOCKBOX_SEED"

const (
	randomProfiles = 60
	casesEach      = 40
	wantCases      = 2000
	askerArg       = "@ask"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == askerArg {
		os.Exit(asker())
	}
	os.Exit(apart.Main(m, func() error {
		if os.Geteuid() != 0 {
			return nil
		}
		_, err := engine.New(runner.RunDir()).RemovePinned()
		return err
	}))
}

// TestDecide: for random profiles in mode direct the kernel refuses what Decide
// refuses and lets pass what Decide allows. The question is put by a process in
// the run's cgroup, in a network namespace that has only lo: what passes the
// programs ends in ENETUNREACH or at a server of the run itself, and what does
// not ends in EPERM. A process outside of the run never sees EPERM.
//
// Not asked: this host's own addresses, which the kernel opens only to those who
// name them whole and Decide does not know; port 0, which means any port to
// Decide; connect of a UDP socket, which sends nothing and passes where TCP does.
//
// K-008 K-021 K-022 G-001
func TestDecide(t *testing.T) {
	needs.Root(t)
	needs.Cgroup2(t)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(seedVar); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVar, err)
		}
	}
	t.Logf("repeat with %s=%d", seedVar, seed)
	d := &decider{
		T: t, r: rand.New(rand.NewPCG(seed, 0)), e: engine.New(runner.RunDir()),
		refused: map[string]bool{}, opened: map[string]bool{},
	}
	d.network()
	d.free = d.ask(nil)

	every := `"0.0.0.0/0", "[::]/0", "0.0.0.0/0:80/udp", "[::]/0:80/udp"`
	d.run(subject{allow: parse(t, every), cases: edges()})
	d.run(subject{cases: edges()})
	d.run(subject{allow: namedRows(), cases: edges()})
	for i := range randomProfiles {
		d.run(d.random(profiles.Denials()[i%len(profiles.Denials())].Prefix))
	}

	for _, row := range profiles.Denials() {
		own := row.Prefix.Addr().IsLoopback() || row.Prefix.Addr().IsUnspecified() && row.Prefix.IsSingleIP()
		if id := row.ID; id != "builtin:v4-mapped" && !own && (!d.refused[id] || !d.opened[id]) {
			t.Errorf("%s: refused %v, opened by name %v; want both", id, d.refused[id], d.opened[id])
		}
	}
	if d.cases < wantCases || d.allowed < d.cases/5 || d.allowed > d.cases*4/5 || d.reached < 50 {
		t.Errorf("%d cases, %d allowed, %d reached a server: they say little", d.cases, d.allowed, d.reached)
	}
	t.Logf("%d destinations and %d binds, %d allowed, %d of them reached a server, %d mismatches", d.cases, d.binds, d.allowed, d.reached, d.wrong)
}

// A question is a destination, or an address to bind.
type question struct {
	Op    profiles.Op
	To    netip.AddrPort
	Proto string
	Own   bool // To is loopback, and the port that of a server of the run
}

// A subject is a profile and what is asked about it.
type subject struct {
	allow []profiles.Entry
	hosts map[string][]netip.Addr
	ports []uint16 // to listen on
	cases []question
}

type decider struct {
	*testing.T
	r    *rand.Rand
	e    *engine.Engine
	ns   *os.File
	free *asked
	// alien are the ports of servers that are nobody's run.
	alien ports

	cases, binds, allowed, reached, wrong int
	refused, opened                       map[string]bool
}

// ports are of servers: at 127.0.0.1 and at ::1, for TCP and for UDP.
type ports struct{ TCP4, TCP6, UDP4, UDP6 uint16 }

func (p ports) at(q question) uint16 {
	four := q.To.Addr().Unmap().Is4()
	switch {
	case q.Proto == "udp" && four:
		return p.UDP4
	case q.Proto == "udp":
		return p.UDP6
	case four:
		return p.TCP4
	}
	return p.TCP6
}

// run asks Decide, the kernel and, for control, the kernel without a run.
func (d *decider) run(s subject) {
	d.Helper()
	p := profiles.Join(&profiles.Profile{}, &profiles.Profile{Name: "t", Net: profiles.Net{Mode: profiles.NetDirect, Allow: s.allow, Listen: s.ports}})
	sealed, err := profiles.Seal(p, profiles.Expand{Home: "/home/t"}, profiles.Terminal)
	d.must(err)
	sealed = sealed.WithHosts(s.hosts)
	net := sealed.Profile().Net
	hold, err := d.e.Hold(fmt.Sprintf("decide-%d", d.r.Uint32()), profiles.Limits{}, &runner.Egress{Rules: sealed.Egress(), Listen: net.Listen, Unix: net.Unix})
	d.must(err)
	defer func() { d.must(hold.Close()) }()
	run := d.ask(hold)
	defer run.stop()

	for i, q := range s.cases {
		switch {
		case q.Own:
			s.cases[i].To = netip.AddrPortFrom(q.To.Addr(), run.own.at(q))
		case q.To.Port() == 0 && q.Op != profiles.OpBind:
			s.cases[i].To = netip.AddrPortFrom(q.To.Addr(), d.alien.at(q))
		}
	}
	got := run.answers(d.T, s.cases)
	free := slices.Clone(s.cases)
	for i := range free {
		free[i].Own = false // the run's server gives it no answer: nothing to wait for
	}
	control := d.free.answers(d.T, free)
	for i, q := range s.cases {
		o := profiles.Object{Addr: q.To.Addr(), Port: q.To.Port(), Proto: q.Proto, Own: q.Own}
		want := sealed.Decide(q.Op, o)
		d.note(q, want, got[i])
		if want.Allow != (got[i] != unix.EPERM) {
			d.wrong++
			d.Errorf("%v %v/%s own=%v: Decide allows %v by %s, the kernel says %d (%v)\n%sallow %v\nhosts %v\nlisten %v",
				q.Op, q.To, q.Proto, q.Own, want.Allow, want.Rule, got[i], got[i], steps(want), net.Allow, s.hosts, net.Listen)
		}
		if control[i] == unix.EPERM {
			d.Errorf("%v %v/%s: EPERM outside of the run", q.Op, q.To, q.Proto)
		}
		if d.wrong > 20 {
			d.Fatal("too many mismatches")
		}
	}
}

// note counts, so that the test can tell whether it asked enough.
func (d *decider) note(q question, want profiles.Decision, got syscall.Errno) {
	if q.Op == profiles.OpBind {
		d.binds++
		return
	}
	d.cases++
	denial, bad := profiles.Denied(q.To.Addr())
	if !want.Allow {
		if bad && want.Rule == denial.ID {
			d.refused[denial.ID] = true
		}
		return
	}
	d.allowed++
	if bad {
		d.opened[denial.ID] = true
	}
	if got == 0 && q.Own {
		d.reached++
	}
}

func steps(d profiles.Decision) string {
	var b strings.Builder
	for _, s := range d.Steps {
		fmt.Fprintf(&b, "  %s: %s (%s)\n", s.Step, s.Result, s.Rule)
	}
	return b.String()
}

func (d *decider) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func parse(t *testing.T, list string) []profiles.Entry {
	t.Helper()
	var out []profiles.Entry
	for s := range strings.SplitSeq(list, ", ") {
		e, err := profiles.ParseEntry(strings.Trim(s, `"`))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// namedRows opens every built-in denial by its own prefix.
func namedRows() []profiles.Entry {
	var out []profiles.Entry
	for _, row := range profiles.Denials() {
		if !row.Prefix.Addr().Is4In6() {
			out = append(out, profiles.Entry{Prefix: row.Prefix}, profiles.Entry{Prefix: row.Prefix, Port: 80, UDP: true})
		}
	}
	return out
}

// edges asks about the first and last address of every built-in denial and the
// neighbours just outside of it.
func edges() []question {
	var out []question
	for _, row := range profiles.Denials() {
		for _, a := range around(row.Prefix) {
			for _, proto := range []string{"tcp", "udp"} {
				if usable(a) {
					out = append(out, ask(a, 80, proto))
				}
			}
		}
	}
	return out
}

func ask(a netip.Addr, port uint16, proto string) question {
	op := profiles.OpConnect
	if proto == "udp" {
		op = profiles.OpSend
	}
	return question{Op: op, To: netip.AddrPortFrom(a, port), Proto: proto}
}

// around is the address before p, its first, its last, and the one behind.
func around(p netip.Prefix) []netip.Addr {
	first, last := p.Masked().Addr(), lastOf(p)
	return []netip.Addr{first.Prev(), first, last, last.Next()}
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// usable: not beyond the last address, and not this host's own.
func usable(a netip.Addr) bool {
	return a.IsValid() && a.Unmap() != netip.MustParseAddr(apart.Addr)
}

var (
	public = []netip.Prefix{
		netip.MustParsePrefix("8.8.8.0/24"), netip.MustParsePrefix("93.184.0.0/15"), netip.MustParsePrefix("1.1.1.1/32"),
		netip.MustParsePrefix("2a00:1450::/29"), netip.MustParsePrefix("2606:4700::/32"), netip.MustParsePrefix("2a01:4f8:1:2::3/128"),
	}
	somePorts = []uint16{1, 22, 53, 80, 443, 8443, 65535}
)

// random is a profile about near, other built-in denials and public addresses,
// and destinations in and around what it names.
func (d *decider) random(near netip.Prefix) subject {
	var s subject
	places := []netip.Prefix{near, d.place(), public[d.r.IntN(len(public))]}
	s.hosts = map[string][]netip.Addr{}
	for range d.r.IntN(9) {
		s.allow = append(s.allow, d.entry(places, s.hosts))
	}
	for _, port := range []uint16{80, 3000} {
		if d.r.IntN(3) == 0 {
			s.ports = append(s.ports, port)
		}
	}
	for _, e := range s.allow {
		if e.Prefix.IsValid() {
			places = append(places, e.Prefix, e.Prefix)
		}
	}
	for _, list := range s.hosts {
		for _, a := range list {
			places = append(places, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for len(s.cases) < casesEach {
		if q := d.question(places, s.allow); usable(q.To.Addr()) {
			s.cases = append(s.cases, q)
		}
	}
	for range 4 {
		a := []string{"0.0.0.0", "::", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "8.8.8.8", "2001:db8::1"}
		s.cases = append(s.cases, question{
			Op: profiles.OpBind, Proto: []string{"tcp", "udp"}[d.r.IntN(2)],
			To: netip.AddrPortFrom(netip.MustParseAddr(a[d.r.IntN(len(a))]), []uint16{0, 80, 3000, 3001}[d.r.IntN(4)]),
		})
	}
	return s
}

// place is a row of the built-in denials.
func (d *decider) place() netip.Prefix {
	rows := profiles.Denials()
	return rows[d.r.IntN(len(rows))].Prefix
}

// entry is one line of an allow list; a host is given addresses.
func (d *decider) entry(places []netip.Prefix, hosts map[string][]netip.Addr) profiles.Entry {
	var target string
	p := places[d.r.IntN(len(places))]
	switch d.r.IntN(8) {
	case 0, 1:
		target = []string{"a.example", "b.example"}[d.r.IntN(2)]
		for range 1 + d.r.IntN(2) {
			if a := d.address(p); usable(a) {
				hosts[target] = append(hosts[target], a)
			}
		}
	case 2:
		target = []string{"0.0.0.0/0", "[::]/0", "0.0.0.0/1", "[8000::]/1", "[::]/90"}[d.r.IntN(5)]
	default:
		a := d.address(p)
		for !a.IsValid() {
			a = d.address(p)
		}
		bits := p.Bits() + d.r.IntN(7) - 3
		if d.r.IntN(4) == 0 {
			bits = a.BitLen()
		}
		bits = min(max(bits, 0), a.BitLen())
		if a.Is4In6() {
			bits = max(bits, 96)
		}
		q := netip.PrefixFrom(a, bits).Masked()
		target = q.String()
		if a.Is6() {
			target = fmt.Sprintf("[%s]/%d", q.Addr(), bits)
		}
	}
	switch d.r.IntN(5) {
	case 0, 1:
		target += fmt.Sprintf(":%d", somePorts[d.r.IntN(len(somePorts))])
	case 2:
		target += fmt.Sprintf(":%d/udp", somePorts[d.r.IntN(len(somePorts))])
	}
	e, err := profiles.ParseEntry(target)
	d.must(err)
	return e
}

// address is one in p, at its edges or just outside; IPv4 also in the forms in
// which it hides in IPv6.
func (d *decider) address(p netip.Prefix) netip.Addr {
	a := p.Addr()
	if k := d.r.IntN(6); k < 4 {
		a = around(p)[k]
	} else {
		b := a.AsSlice()
		for i := p.Bits(); i < 8*len(b); i++ {
			b[i/8] ^= byte(d.r.IntN(2)) << (7 - i%8)
		}
		a, _ = netip.AddrFromSlice(b)
	}
	if !a.Is4() || d.r.IntN(3) > 0 {
		return a
	}
	b := a.As4()
	six := netip.MustParseAddr([]string{"::", "::ffff:0:0", "64:ff9b::", "64:ff9b:1::", "2002::1", "2001::"}[d.r.IntN(6)]).As16()
	if six[0] == 0x20 && six[1] == 2 {
		copy(six[2:], b[:])
	} else {
		copy(six[12:], b[:])
	}
	return netip.AddrFrom16(six)
}

func (d *decider) question(places []netip.Prefix, allow []profiles.Entry) question {
	proto := []string{"tcp", "tcp", "udp"}[d.r.IntN(3)]
	port := somePorts[d.r.IntN(len(somePorts))]
	if d.r.IntN(12) == 0 { // a server on loopback, of the run or not
		a := []string{"127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"}
		q := ask(netip.MustParseAddr(a[d.r.IntN(len(a))]), 0, proto)
		q.Own = d.r.IntN(2) == 0
		return q
	}
	p := places[d.r.IntN(len(places))]
	if len(allow) > 0 && d.r.IntN(2) == 0 { // more often what is named
		e := allow[d.r.IntN(len(allow))]
		if e.Prefix.IsValid() {
			p = e.Prefix
		}
		if e.Port != 0 {
			port = e.Port
		}
		if e.UDP && d.r.IntN(4) > 0 {
			proto = "udp"
		}
	}
	return ask(d.address(p), port, proto)
}

// network makes the namespace of the questions, and in it the servers that are
// no run's.
func (d *decider) network() {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			var err error
			if d.ns, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())); err != nil {
				return err
			}
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(lo); err != nil {
				return err
			}
			var fds []int
			d.alien, fds, err = servers()
			d.Cleanup(func() {
				for _, fd := range fds {
					unix.Close(fd)
				}
			})
			return err
		}()
	}()
	err := <-done
	d.Cleanup(func() { d.ns.Close() })
	d.must(err)
}

// servers listens on loopback. The sockets are never read.
func servers() (p ports, fds []int, err error) {
	for _, s := range []struct {
		at   string
		typ  int
		port *uint16
	}{{"127.0.0.1", unix.SOCK_STREAM, &p.TCP4}, {"::1", unix.SOCK_STREAM, &p.TCP6}, {"127.0.0.1", unix.SOCK_DGRAM, &p.UDP4}, {"::1", unix.SOCK_DGRAM, &p.UDP6}} {
		family, sa := sockaddr(netip.AddrPortFrom(netip.MustParseAddr(s.at), 0))
		fd, err := unix.Socket(family, s.typ|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return p, fds, fmt.Errorf("socket: %w", err)
		}
		fds = append(fds, fd)
		if err := unix.Bind(fd, sa); err != nil {
			return p, fds, fmt.Errorf("bind: %w", err)
		}
		if s.typ == unix.SOCK_STREAM {
			if err := unix.Listen(fd, 4096); err != nil {
				return p, fds, fmt.Errorf("listen: %w", err)
			}
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			return p, fds, fmt.Errorf("getsockname: %w", err)
		}
		switch n := name.(type) {
		case *unix.SockaddrInet4:
			*s.port = uint16(n.Port)
		case *unix.SockaddrInet6:
			*s.port = uint16(n.Port)
		}
	}
	return p, fds, nil
}

// asked is a process that puts questions to the kernel.
type asked struct {
	cmd  *exec.Cmd
	pipe [2]*os.File
	enc  *gob.Encoder
	dec  *gob.Decoder
	own  ports
}

// ask starts one in the namespace, and in the run's cgroup from its first
// instruction on if there is a run.
func (d *decider) ask(hold runner.Hold) *asked {
	d.Helper()
	childIn, in, err := os.Pipe()
	d.must(err)
	defer childIn.Close()
	out, childOut, err := os.Pipe()
	d.must(err)
	defer childOut.Close()
	a := &asked{pipe: [2]*os.File{in, out}, enc: gob.NewEncoder(in), dec: gob.NewDecoder(out)}
	a.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: []string{"asker", askerArg}, Stdin: childIn, Stdout: childOut, Stderr: os.Stderr, SysProcAttr: &syscall.SysProcAttr{}}
	if hold != nil {
		a.cmd.SysProcAttr.UseCgroupFD, a.cmd.SysProcAttr.CgroupFD = true, hold.FD()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Setns(int(d.ns.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = a.cmd.Start()
		}
		done <- err
	}()
	d.must(<-done)
	d.Cleanup(a.stop)
	a.patience()
	if err := a.dec.Decode(&a.own); err != nil {
		d.Fatalf("the process that asks did not start: %v", err)
	}
	return a
}

func (a *asked) patience() {
	for _, f := range a.pipe {
		f.SetDeadline(time.Now().Add(30 * time.Second))
	}
}

func (a *asked) stop() {
	if a.cmd == nil {
		return
	}
	a.cmd.Process.Kill()
	a.cmd.Wait()
	a.pipe[0].Close()
	a.pipe[1].Close()
	a.cmd = nil
}

// answers are the errnos, in the order of the questions.
func (a *asked) answers(t *testing.T, list []question) []syscall.Errno {
	t.Helper()
	a.patience()
	if err := a.enc.Encode(list); err != nil {
		t.Fatalf("ask: %v", err)
	}
	var out []syscall.Errno
	if err := a.dec.Decode(&out); err != nil || len(out) != len(list) {
		t.Fatalf("%d answers to %d questions: %v", len(out), len(list), err)
	}
	return out
}

// asker is the process: it starts its own servers, says their ports and then
// answers.
func asker() int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "asker:", err)
		return 1
	}
	own, _, err := servers()
	if err != nil {
		return fail(err)
	}
	enc, dec := gob.NewEncoder(os.Stdout), gob.NewDecoder(os.Stdin)
	if err := enc.Encode(own); err != nil {
		return fail(err)
	}
	for {
		var list []question
		if dec.Decode(&list) != nil {
			return 0
		}
		out := make([]syscall.Errno, len(list))
		for i, q := range list {
			if err := q.try(); err != nil && !errors.As(err, &out[i]) {
				return fail(err)
			}
		}
		if err := enc.Encode(out); err != nil {
			return fail(err)
		}
	}
}

// try puts the question to the kernel.
func (q question) try() error {
	family, sa := sockaddr(q.To)
	typ := unix.SOCK_STREAM
	if q.Proto == "udp" {
		typ = unix.SOCK_DGRAM
	}
	wait := unix.SOCK_NONBLOCK
	if q.Own {
		wait = 0
	}
	fd, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC|wait, 0)
	if err != nil {
		return fmt.Errorf("socket, which every run has: %v", err) // no errno: not an answer
	}
	defer unix.Close(fd)
	switch {
	case q.Op == profiles.OpBind:
		return unix.Bind(fd, sa)
	case typ == unix.SOCK_DGRAM:
		// Else broadcast addresses are EACCES before a packet is made.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
			return fmt.Errorf("setsockopt: %v", err)
		}
		return unix.Sendto(fd, []byte("?"), 0, sa)
	}
	return unix.Connect(fd, sa)
}

func sockaddr(a netip.AddrPort) (family int, sa unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}
