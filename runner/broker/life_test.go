package broker

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/runner/broker/client"
	"lockbox/runner/broker/wire"
	"lockbox/test/needs"
)

// A connection that ends before finish ends its run, once. K-007, K-018
func TestSupervisorGone(t *testing.T) {
	needs.Root(t)
	s := serving(t)
	_, pidfd := child(t, peer("sleep"))
	for _, adopt := range []bool{false, true} {
		c, err := client.Dial(s.socket)
		must(t, err)
		id := newID(t)
		hold, err := c.Hold(id, profiles.Limits{}, nil)
		must(t, err)
		if adopt {
			must(t, hold.Adopt(pidfd, 0))
		}
		must(t, c.Close())
		if !eventually(5*time.Second, func() bool { return s.holdOf(id) == nil }) {
			t.Fatal("still held")
		}
		if _, kills, closings := s.engine.of(id).state(); kills == 0 || closings != 1 {
			t.Errorf("killed %d times, closed %d times", kills, closings)
		}
		r := s.by(0).ask(t, "receipt", wire.RunArgs{Run: id})
		if !adopt { // nothing ran
			if r.Error != refusal {
				t.Errorf("the receipt of a run without a process: %+v", r)
			}
			continue
		}
		var got runner.Receipt
		must(t, json.Unmarshal(r.Body, &got))
		if got.Exit.Cause != "killed" || got.Exit.Signal != "SIGKILL" || got.Usage.CPUms != 7 || len(got.Denials) != 1 || len(got.Notes) != 1 {
			t.Errorf("receipt %+v", got)
		}
	}
}

// finish is the end: its receipt stands, and nothing is killed twice or stored anew.
func TestFinish(t *testing.T) {
	needs.Root(t)
	s := serving(t)
	c, err := client.Dial(s.socket)
	must(t, err)
	defer c.Close()
	id := newID(t)
	hold, err := c.Hold(id, profiles.Limits{Pids: 3}, nil)
	must(t, err)
	n, err := hold.Counted()
	if err != nil || n.MaxRSS != 1<<20 || hold.By() != "a fake" || !hold.Moves() {
		t.Errorf("%+v, %v, by %q", n, err, hold.By())
	}
	must(t, hold.Finish(&runner.Receipt{Profile: "p", Exit: runner.ReceiptExit{Code: 3}}))
	must(t, hold.Close())
	must(t, hold.Close())
	var got runner.Receipt
	must(t, json.Unmarshal(s.by(0).must(t, "receipt", wire.RunArgs{Run: id}), &got))
	if got.Exit.Code != 3 || got.Exit.Cause != "" || got.Profile != "p" {
		t.Errorf("receipt %+v", got)
	}
	if _, _, closings := s.engine.of(id).state(); closings != 1 {
		t.Errorf("closed %d times", closings)
	}
}

// The end of the service ends what it holds and everybody who waits.
func TestStop(t *testing.T) {
	needs.Root(t)
	s := serving(t)
	idler, err := client.Dial(s.socket)
	must(t, err)
	defer idler.Close()
	must(t, idler.Hello())
	c, err := client.Dial(s.socket)
	must(t, err)
	defer c.Close()
	id := newID(t)
	hold, err := c.Hold(id, profiles.Limits{}, nil)
	must(t, err)
	must(t, s.stop())
	if _, kills, closings := s.engine.of(id).state(); kills == 0 || closings != 1 {
		t.Errorf("killed %d times, closed %d times", kills, closings)
	}
	n, err := hold.Counted()
	if err == nil || !strings.Contains(err.Error(), "the runner's service: it went away") || n.CPUms != -1 || n.MaxRSS != -1 || n.PidsPeak != -1 {
		t.Errorf("without a service: %+v, %v", n, err)
	}
	if again := hold.Kill(); again == nil || again.Error() != err.Error() {
		t.Errorf("and again: %v", again)
	}
	if _, err := os.Lstat(s.socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// What an earlier broker left is told.
func TestLeftIsTold(t *testing.T) {
	needs.Root(t)
	log := &lines{}
	s := quiet(t)
	s.engine.left = []string{"ONE", "TWO"}
	s.cfg.Log = nil
	cfg := s.cfg
	cfg.Log = logger(log)
	_, err := New(cfg)
	must(t, err)
	if text := log.String(); !strings.Contains(text, "ONE") || !strings.Contains(text, "TWO") {
		t.Errorf("log %q", text)
	}
}

// One user's connections are bounded, another's are not touched by it. K-007
func TestConnectionsOfOneUser(t *testing.T) {
	needs.Root(t)
	s := serving(t)
	out, err := as(peer("many", s.socket, "400"), 2001).Output()
	if err != nil || atoi(string(out)) != maxConns {
		t.Errorf("%s served at once, %v; want %d", out, err, maxConns)
	}
	out, err = as(peer("hello", s.socket), 65534).Output()
	if err != nil || string(out) != "served\n" {
		t.Errorf("another user: %s, %v", out, err)
	}
	if !eventually(5*time.Second, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 0 }) {
		t.Errorf("connections %v", s.conns)
	}
}

// A lack of descriptors passes, and ends nobody's run.
func TestNoDescriptors(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	path := filepath.Join(folder(t), "sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	c, err := client.Dial(path)
	must(t, err)
	defer c.Close()
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	var all []int
	defer func() { wire.CloseAll(all) }()
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: old.Max}))
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		all = append(all, fd)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	told := eventually(5*time.Second, func() bool { return strings.Contains(s.log.String(), "too many open files") })
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	if !told {
		t.Errorf("accept did not fail: %s", s.log)
	}
	must(t, c.Hello())
	cancel()
	must(t, <-done)
}

// A listener that fails for good ends the service, and nobody waits for ever.
func TestListenerFails(t *testing.T) {
	needs.Root(t)
	s := quiet(t)
	path := filepath.Join(folder(t), "sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), l) }()
	c, err := client.Dial(path)
	must(t, err)
	defer c.Close()
	must(t, c.Hello())
	l.Close()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("waits for connections that nobody closes")
	}
}

// Descriptors of every connection go with it, whatever was sent. K-018
func TestNoDescriptorLeft(t *testing.T) {
	needs.Root(t)
	s := serving(t)
	open := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(d)
	}
	round := func() {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(fd)
		must(t, unix.Connect(fd, &unix.SockaddrUnix{Name: s.socket}))
		for _, msg := range []string{`{"v":1,"req":"hello"}`, `{"v":1,"req":"adopt"}`, `nonsense`} {
			must(t, wire.WriteFrame(sender(fd), []byte(msg), 0, 1, 2))
			_, _, err := wire.ReadFrame(sender(fd))
			must(t, err)
		}
		unix.Sendmsg(fd, []byte{0, 0, 0, 9, 'x'}, unix.UnixRights(0, 1, 2, 0), nil, 0)
	}
	round()
	settled := func(n int) bool { return eventually(5*time.Second, func() bool { return open() <= n }) }
	eventually(time.Second, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 0 })
	before := open()
	for range 50 {
		round()
	}
	if !settled(before) {
		t.Errorf("%d descriptors, before %d", open(), before)
	}
}

// sender is a plain socket.
type sender int

func (s sender) ReadMsg(b, oob []byte) (n, oobn, flags int, err error) {
	n, oobn, flags, _, err = unix.Recvmsg(int(s), b, oob, unix.MSG_CMSG_CLOEXEC)
	return n, oobn, flags, err
}

func (s sender) WriteMsg(b, oob []byte) (int, error) { return unix.SendmsgN(int(s), b, oob, nil, 0) }
