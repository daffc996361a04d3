package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/runner"
)

// sock is a plain socket as a Conn, with a deadline so that no test hangs.
type sock int

func (s sock) ReadMsg(b, oob []byte) (n, oobn, flags int, err error) {
	n, oobn, flags, _, err = unix.Recvmsg(int(s), b, oob, unix.MSG_CMSG_CLOEXEC)
	return n, oobn, flags, err
}

func (s sock) WriteMsg(b, oob []byte) (int, error) {
	return unix.SendmsgN(int(s), b, oob, nil, unix.MSG_NOSIGNAL)
}

func pair(t testing.TB) (a, b sock) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range p {
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
	}
	return sock(p[0]), sock(p[1])
}

func (s sock) close() { unix.Close(int(s)) }

// descriptors lists what this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// devnull opens so many descriptors.
func devnull(t testing.TB, n int) []int {
	t.Helper()
	var out []int
	for range n {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fd)
	}
	return out
}

func head(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// What is sent arrives, with its descriptors, which are close-on-exec.
func TestFrame(t *testing.T) {
	for _, size := range []int{0, 1, 3, firstStep - 1, firstStep, firstStep + 1, 100_000, maxFrame} {
		for _, n := range []int{0, 1, maxFDs} {
			before := descriptors(t)
			a, b := pair(t)
			body := make([]byte, size)
			for i := range body {
				body[i] = byte(i * 7)
			}
			fds := devnull(t, n)
			done := make(chan error, 1)
			go func() { done <- WriteFrame(a, body, fds...) }()
			got, more, err := ReadFrame(b)
			if err != nil || string(got) != string(body) || len(more) != n {
				t.Fatalf("%d bytes, %d descriptors: got %d, %d, %v", size, n, len(got), len(more), err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			for _, fd := range more {
				if f, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || f&unix.FD_CLOEXEC == 0 {
					t.Errorf("descriptor %d: flags %d, %v", fd, f, err)
				}
			}
			CloseAll(more)
			CloseAll(fds)
			a.close()
			b.close()
			if now := descriptors(t); now != before {
				t.Fatalf("%d descriptors, %d before", now, before)
			}
		}
	}
	if err := WriteFrame(nil, make([]byte, maxFrame+1)); err == nil {
		t.Error("a message beyond the limit was sent")
	}
}

// Two messages in one write are two messages, and the second one's descriptors
// stay with it.
func TestFramesBesideEachOther(t *testing.T) {
	a, b := pair(t)
	defer a.close()
	defer b.close()
	fds := devnull(t, 1)
	defer CloseAll(fds)
	if err := errors.Join(WriteFrame(a, []byte("one")), WriteFrame(a, []byte("two"), fds...), WriteFrame(a, []byte("three"))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		body string
		fds  int
	}{{"one", 0}, {"two", 1}, {"three", 0}} {
		body, got, err := ReadFrame(b)
		if string(body) != want.body || len(got) != want.fds || err != nil {
			t.Errorf("got %q, %d descriptors, %v; want %v", body, len(got), err, want)
		}
		CloseAll(got)
	}
}

// Every way in which a message can be wrong is an error, and leaves no
// descriptor behind. K-019
func TestFrameErrors(t *testing.T) {
	rows := []struct {
		name string
		send func(t *testing.T, a sock)
		want string
	}{
		{"nothing", func(*testing.T, sock) {}, "EOF"},
		{"half a head", func(_ *testing.T, a sock) { a.WriteMsg([]byte{0, 0}, nil) }, "EOF"},
		{"half a head with a descriptor", func(t *testing.T, a sock) { sendWith(t, a, []byte{0, 0}, 1) }, "EOF"},
		{"head alone", func(_ *testing.T, a sock) { a.WriteMsg(head(10), nil) }, "unexpected EOF"},
		{"head alone with descriptors", func(t *testing.T, a sock) { sendWith(t, a, head(10), maxFDs) }, "unexpected EOF"},
		{"half a body with descriptors", func(t *testing.T, a sock) {
			sendWith(t, a, append(head(10), 1, 2), 2)
			sendWith(t, a, []byte{3}, 2)
		}, "unexpected EOF"},
		{"too long by one", func(t *testing.T, a sock) { sendWith(t, a, head(maxFrame+1), 1) }, "at most"},
		{"longest that can be said", func(_ *testing.T, a sock) { a.WriteMsg([]byte{255, 255, 255, 255}, nil) }, "at most"},
		{"one descriptor too many", func(t *testing.T, a sock) { sendWith(t, a, append(head(1), 'x'), maxFDs+1) }, "descriptors"},
		{"far too many", func(t *testing.T, a sock) { sendWith(t, a, append(head(1), 'x'), 200) }, "descriptors"},
		{"too many, some with each byte", func(t *testing.T, a sock) {
			sendWith(t, a, head(50), 1)
			for range 50 {
				sendWith(t, a, []byte{'x'}, maxFDs)
			}
		}, "descriptors"},
		{"too many over head and body", func(t *testing.T, a sock) {
			sendWith(t, a, head(1), maxFDs)
			sendWith(t, a, []byte{'x'}, 1)
		}, "descriptors"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			before := descriptors(t)
			a, b := pair(t)
			row.send(t, a)
			a.close()
			body, fds, err := ReadFrame(b)
			if err == nil || !strings.Contains(err.Error(), row.want) || body != nil || fds != nil {
				t.Errorf("got %d bytes, %v, error %v; want %q", len(body), fds, err, row.want)
			}
			b.close()
			if now := descriptors(t); now != before {
				t.Errorf("%d descriptors, %d before", now, before)
			}
		})
	}
}

func sendWith(t testing.TB, a sock, b []byte, n int) {
	t.Helper()
	fds := devnull(t, n)
	defer CloseAll(fds)
	if _, err := a.WriteMsg(b, unix.UnixRights(fds...)); err != nil {
		t.Fatal(err)
	}
}

// A flood of descriptors ends at the limit, not when they are used up: at no time
// are there more than two messages' worth.
func TestDescriptorFlood(t *testing.T) {
	before := descriptors(t)
	a, b := pair(t)
	unix.SetsockoptTimeval(int(a), unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 1})
	go func() {
		fds := devnull(t, maxFDs)
		defer CloseAll(fds)
		a.WriteMsg(head(maxFrame), nil)
		for {
			if _, err := a.WriteMsg([]byte{'x'}, unix.UnixRights(fds...)); err != nil {
				a.close()
				return
			}
		}
	}()
	most := counting{sock: b, before: before}
	_, fds, err := ReadFrame(&most)
	if err == nil || fds != nil {
		t.Errorf("got %v, %v", fds, err)
	}
	b.close()
	if most.reads > 4 {
		t.Errorf("%d reads before it was refused", most.reads)
	}
	for end := time.Now().Add(5 * time.Second); descriptors(t) != before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors, %d before", descriptors(t), before)
		}
	}
}

type counting struct {
	sock
	before, reads int
}

func (c *counting) ReadMsg(b, oob []byte) (n, oobn, flags int, err error) {
	c.reads++
	return c.sock.ReadMsg(b, oob)
}

// Memory follows what was sent, not what was announced.
func TestAnnouncedOnly(t *testing.T) {
	a, b := pair(t)
	defer b.close()
	a.WriteMsg(append(head(maxFrame), make([]byte, 100)...), nil)
	a.close()
	m := &largest{sock: b}
	if _, _, err := ReadFrame(m); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
	if m.most > firstStep {
		t.Errorf("room for %d bytes after 100", m.most)
	}
}

type largest struct {
	sock
	most int
}

func (l *largest) ReadMsg(b, oob []byte) (n, oobn, flags int, err error) {
	l.most = max(l.most, len(b))
	return l.sock.ReadMsg(b, oob)
}

// FuzzReadFrame: whatever comes over the socket, in whatever pieces and with
// whatever descriptors, gives a value or an error, and no descriptor is left.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'x'}, uint64(0))
	f.Add([]byte{0, 0, 0, 9, 'x', 'y'}, uint64(0x1234))
	f.Add([]byte{255, 255, 255, 255, 1}, uint64(0xffff))
	f.Add([]byte{}, uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, how uint64) {
		if len(data) > 1000 {
			return
		}
		before := descriptors(t)
		a, b := pair(t)
		r := rand.New(rand.NewPCG(how, 1))
		for len(data) > 0 {
			n := 1 + r.IntN(len(data))
			if fds := r.IntN(7); fds > 0 && how != 0 {
				sendWith(t, a, data[:n], fds)
			} else {
				a.WriteMsg(data[:n], nil)
			}
			data = data[n:]
		}
		a.close()
		for {
			body, fds, err := ReadFrame(b)
			if len(fds) > maxFDs || err != nil && (body != nil || fds != nil) {
				t.Fatalf("%d bytes and %v beside %v", len(body), fds, err)
			}
			CloseAll(fds)
			if err != nil {
				break
			}
		}
		b.close()
		if now := descriptors(t); now != before {
			t.Fatalf("%d descriptors, %d before", now, before)
		}
	})
}

// Only what is known, once, and not nested. L-001
func TestDecode(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	rows := []struct{ in, want string }{
		{`{"v":1,"req":"hello"}`, ""},
		{` {"v":1,"req":"hello","args":{"run":"x"}} `, ""},
		{`{"v":1,"req":"x","args":` + deep(15) + `}`, ""},
		{`{"v":1,"req":"x","args":` + deep(16) + `}`, "nested"},
		{`{"v":1,"req":"x","args":` + deep(100000) + `}`, "nested"},
		{`{"v":1,"req":"` + strings.Repeat("[", 100) + `"}`, ""}, // in a string it is no nesting
		{`{"v":1,"req":"\"` + strings.Repeat("[", 100) + `"}`, ""},
		{`{"v":1,"req":"hello"}{}`, "after"},
		{`{"v":1,"req":"hello"}]`, "after"},
		{`{"v":1,"req":"hello"} x`, "after"},
		{`{"v":1,"req":"hello","more":1}`, "unknown field"},
		{`{"v":"1","req":"hello"}`, "cannot unmarshal"},
		{`{"v":1e99,"req":"hello"}`, "cannot unmarshal"},
		{`{"v":1`, "unexpected EOF"},
		{`[]`, "cannot unmarshal"},
		{``, "EOF"},
		{"\x00", "invalid"},
	}
	for _, row := range rows {
		var q Request
		err := Decode([]byte(row.in), &q)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.60q: %v, want %q", row.in, err, row.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"v":1,"req":"hello","args":{}}`, `{"v":1}{"v":2}`, `[[[[`, `{"req":"\u0000\"["}`, `{"v":1,"v":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var q, again Request
		if Decode(data, &q) != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q is no JSON", data)
		}
		b, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(b, &again); err != nil || again.Req != q.Req || again.V != q.V {
			t.Fatalf("%q: %+v, again %+v, %v", data, q, again, err)
		}
	})
}

const someRun = "01J8ZC5T4N7Q2R9V0W1X3Y5Z6A"

// K-019
func TestCheck(t *testing.T) {
	good := func() PrepareArgs {
		return PrepareArgs{Run: someRun, Profile: "base", Argv: []string{"true"}, Memory: 1 << 20, Pids: 10, CPU: 0.5,
			Egress: &runner.Egress{Rules: []profiles.EgressRule{{Prefix: netip.MustParsePrefix("192.0.2.0/24")}}}}
	}
	rows := []struct {
		name string
		make func(a *PrepareArgs)
		ok   bool
	}{
		{"as it is", func(*PrepareArgs) {}, true},
		{"no limit", func(a *PrepareArgs) { a.Memory, a.Pids, a.CPU = 0, 0, 0 }, true},
		{"no egress", func(a *PrepareArgs) { a.Egress = nil }, true},
		{"no id", func(a *PrepareArgs) { a.Run = "" }, false},
		{"id of 25", func(a *PrepareArgs) { a.Run = a.Run[1:] }, false},
		{"id of 27", func(a *PrepareArgs) { a.Run += "A" }, false},
		{"id that goes up", func(a *PrepareArgs) { a.Run = "../../../../../../etc/pass" }, false},
		{"id with an I", func(a *PrepareArgs) { a.Run = a.Run[:25] + "I" }, false},
		{"id in small letters", func(a *PrepareArgs) { a.Run = strings.ToLower(a.Run) }, false},
		{"id with a NUL", func(a *PrepareArgs) { a.Run = a.Run[:25] + "\x00" }, false},
		{"profile of 256", func(a *PrepareArgs) { a.Profile = strings.Repeat("x", 256) }, true},
		{"profile of 257", func(a *PrepareArgs) { a.Profile = strings.Repeat("x", 257) }, false},
		{"4096 arguments", func(a *PrepareArgs) { a.Argv = make([]string, 4096) }, true},
		{"4097 arguments", func(a *PrepareArgs) { a.Argv = make([]string, 4097) }, false},
		{"memory -1", func(a *PrepareArgs) { a.Memory = -1 }, false},
		{"pids -1", func(a *PrepareArgs) { a.Pids = -1 }, false},
		{"cpu -1", func(a *PrepareArgs) { a.CPU = -0.001 }, false},
		{"cpu too much", func(a *PrepareArgs) { a.CPU = 1 << 20 }, false},
		{"a namespace of its own", func(a *PrepareArgs) { a.Egress.OwnNamespace = true }, false},
		{"rule without a prefix", func(a *PrepareArgs) { a.Egress.Rules = make([]profiles.EgressRule, 1) }, false},
		{"rule with host bits", func(a *PrepareArgs) { a.Egress.Rules[0].Prefix = netip.MustParsePrefix("192.0.2.1/24") }, false},
		{"too many rules", func(a *PrepareArgs) { a.Egress.Rules = make([]profiles.EgressRule, 20001) }, false},
		{"too many ports", func(a *PrepareArgs) { a.Egress.Listen = make([]uint16, 65) }, false},
		{"too many sockets", func(a *PrepareArgs) { a.Egress.Unix = make([]string, 1025) }, false},
		{"too many folders", func(a *PrepareArgs) { a.Egress.Writable = make([]string, 1025) }, false},
		{"too many canaries", func(a *PrepareArgs) { a.Egress.Canaries = make([]string, 9) }, false},
		{"long path", func(a *PrepareArgs) { a.Egress.Writable = []string{strings.Repeat("x", 4097)} }, false},
	}
	for _, row := range rows {
		a := good()
		row.make(&a)
		if err := a.Check(); (err == nil) != row.ok {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// FuzzCheck: what is let through is within every bound.
func FuzzCheck(f *testing.F) {
	b, _ := json.Marshal(PrepareArgs{Run: someRun, Egress: &runner.Egress{Rules: []profiles.EgressRule{{Prefix: netip.MustParsePrefix("2001:db8::/32"), Port: 1}}}})
	f.Add(b)
	f.Add([]byte(`{"run":"` + someRun + `","memory":-1}`))
	f.Add([]byte(`{"run":"` + someRun + `","egress":{"OwnNamespace":true}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a PrepareArgs
		if Decode(data, &a) != nil || a.Check() != nil {
			return
		}
		l := a.Limits()
		if !runner.ValidID(a.Run) || strings.ContainsAny(a.Run, "/.\x00") || l.Memory < 0 || l.Pids < 0 || !(l.CPU >= 0) || a.Egress != nil && a.Egress.OwnNamespace {
			t.Fatalf("let through: %+v", a)
		}
	})
}

// What is shown of arguments is bounded, whatever they are.
func TestShown(t *testing.T) {
	if got := Shown([]string{"a", "b"}); len(got) != 2 || got[1] != "b" {
		t.Errorf("%q", got)
	}
	if got := Shown(nil); got == nil || len(got) != 0 { // [] in JSON
		t.Errorf("%#v", got)
	}
	for _, in := range [][]string{{strings.Repeat("x", 5000)}, make([]string, 4096)} {
		got := Shown(in)
		if n := len(strings.Join(got, "12345678")); n > maxShown+16 || got[len(got)-1] != "…" {
			t.Errorf("%d bytes kept", n)
		}
	}
}
