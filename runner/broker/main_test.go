package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/runner/broker/client"
	"lockbox/runner/broker/wire"
	"lockbox/test/apart"
)

func init() { runtime.LockOSThread() } // roles change the main thread, which /proc/PID shows

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == roleArg {
		os.Exit(role(os.Args[2], os.Args[3:]))
	}
	runtime.UnlockOSThread()
	os.Exit(apart.Main(m))
}

// roleArg is the first argument of the test binary where it is a peer.
const roleArg = "@peer"

func role(name string, args []string) int {
	switch name {
	case "hello": // SOCKET
		c, err := client.Dial(args[0])
		if err == nil {
			err = c.Hello()
		}
		fmt.Println(cmpNil(err))
	case "many": // SOCKET N: how many are served at once
		served := 0
		for range atoi(args[1]) {
			c, err := client.Dial(args[0])
			if err == nil && c.Hello() == nil {
				served++
			}
		}
		fmt.Println(served)
	case "write": // SOCKET: asks and ends without hearing the answer
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: args[0]})
		}
		if err == nil {
			_, err = unix.Write(fd, append([]byte{0, 0, 0, 21}, `{"v":1,"req":"hello"}`...))
		}
		fmt.Println(cmpNil(err))
	case "blind":
		with, without := blind(args[0])
		fmt.Println(cmpNil(with))
		fmt.Println(cmpNil(without))
	case "no-new-privs":
		fmt.Print(cmpOK(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))
		return again(args)
	case "seccomp": // root needs no no_new_privs for it
		fmt.Print(cmpOK(allowAll()))
		return again(args)
	case "uids": // REAL EFFECTIVE SAVED
		fmt.Print(cmpOK(syscall.Setresuid(atoi(args[0]), atoi(args[1]), atoi(args[2]))))
		fmt.Println("ready")
		time.Sleep(time.Minute)
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Minute)
	case "parent": // of a child that sleeps
		c := exec.Command("/proc/self/exe", roleArg, "sleep")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, _ := c.StdoutPipe()
		fmt.Print(cmpOK(c.Start()))
		out.Read(make([]byte, 16))
		fmt.Println(c.Process.Pid)
		time.Sleep(time.Minute)
	}
	return 0
}

func again(args []string) int {
	fmt.Println(syscall.Exec("/proc/self/exe", append([]string{"peer", roleArg}, args...), os.Environ()))
	return 1
}

func cmpNil(err error) string {
	if err == nil {
		return "served"
	}
	return err.Error()
}

func cmpOK(err error) string {
	if err == nil {
		return ""
	}
	return err.Error() + "\n"
}

func atoi(s string) (n int) { fmt.Sscan(s, &n); return n }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// peer is the test binary in a role.
func peer(role string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", append([]string{roleArg, role}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Dir = "/"
	return c
}

func as(c *exec.Cmd, uid uint32, groups ...uint32) *exec.Cmd {
	c.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}
	return c
}

// folder is one that other users may enter.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lockbox-broker-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// fakeEngine makes holds that remember what was done to them.
type fakeEngine struct {
	mu    sync.Mutex
	holds map[string]*fakeHold
	left  []string
	fail  error
	slow  chan struct{} // Hold waits for it
}

type fakeHold struct {
	mu              sync.Mutex
	pid             int
	kills, closings int
	counted         runner.Counted
	failAdopt       error
}

func (e *fakeEngine) Resolve(*profiles.Sealed) (map[string][]netip.Addr, error) { return nil, nil }
func (e *fakeEngine) Sweep() ([]string, error)                                  { return e.left, nil }
func (e *fakeEngine) Hold(id string, _ profiles.Limits, _ *runner.Egress) (runner.Hold, error) {
	if e.slow != nil {
		<-e.slow
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return nil, e.fail
	}
	h := &fakeHold{counted: runner.Counted{CPUms: 7, MaxRSS: 1 << 20, PidsPeak: 3, Lost: 2,
		Denials: []runner.Denial{{Kind: "net", Op: "connect", Target: "192.0.2.1:80", Count: 5, By: "cgroup:connect4"}}}}
	if e.holds == nil {
		e.holds = map[string]*fakeHold{}
	}
	e.holds[id] = h
	return h, nil
}

func (e *fakeEngine) of(id string) *fakeHold {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holds[id]
}

func (h *fakeHold) state() (pid, kills, closings int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pid, h.kills, h.closings
}

func (h *fakeHold) FD() int        { return -1 }
func (h *fakeHold) TaskFDs() []int { return nil }
func (h *fakeHold) Moves() bool    { return false }
func (h *fakeHold) By() string     { return "a fake" }
func (h *fakeHold) Adopt(_, pid int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failAdopt == nil {
		h.pid = pid
	}
	return h.failAdopt
}
func (h *fakeHold) Finish(*runner.Receipt) error { return nil }
func (h *fakeHold) Kill() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kills++
	return nil
}
func (h *fakeHold) Counted() (runner.Counted, error) { return h.counted, nil }
func (h *fakeHold) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closings++
	return nil
}

// service is a broker in this process.
type service struct {
	*Server
	engine *fakeEngine
	socket string
	log    *lines
	stop   func() error
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const operators = 77

func logger(l *lines) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// quiet is a broker that listens nowhere.
func quiet(t testing.TB) *service {
	t.Helper()
	s := &service{engine: &fakeEngine{}, log: &lines{}}
	var err error
	s.Server, err = New(Config{Home: folder(t), Engine: s.engine, Operators: operators, Log: slog.New(slog.NewTextHandler(s.log, nil))})
	must(t, err)
	return s
}

func serving(t testing.TB) *service {
	t.Helper()
	s := quiet(t)
	s.socket = filepath.Join(folder(t), "sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.socket, Net: "unix"})
	must(t, err)
	must(t, os.Chmod(s.socket, 0o666))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(10 * time.Second):
			return errors.New("the service does not end")
		}
	})
	t.Cleanup(func() { must(t, s.stop()) })
	return s
}

// by is a connection of somebody's, without the connection.
func (s *service) by(uid int, groups ...int) *session {
	return &session{ctx: context.Background(), srv: s.Server, peer: &Peer{UID: uid, GID: uid, Groups: groups, PID: os.Getpid(), pidfd: -1}}
}

// ask puts a request to a session.
func (s *session) ask(t testing.TB, req string, args any, fds ...int) wire.Reply {
	t.Helper()
	raw, err := json.Marshal(args)
	must(t, err)
	b, err := json.Marshal(wire.Request{V: wire.Version, Req: req, Args: raw})
	must(t, err)
	return s.answer(b, fds)
}

func (s *session) must(t testing.TB, req string, args any, fds ...int) json.RawMessage {
	t.Helper()
	r := s.ask(t, req, args, fds...)
	if r.Error != "" {
		t.Fatalf("%s: %s", req, r.Error)
	}
	return r.Body
}

func newID(t testing.TB) string {
	t.Helper()
	id, err := runner.NewID()
	must(t, err)
	return id
}

func eventually(d time.Duration, f func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(2 * time.Millisecond) {
		if f() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// child starts a role that says "ready" first; text is what it said.
func child(t testing.TB, c *exec.Cmd) (text string, pidfd int) {
	t.Helper()
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	b := make([]byte, 64)
	n, err := out.Read(b)
	must(t, err)
	pidfd, err = unix.PidfdOpen(c.Process.Pid, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(pidfd) })
	return strings.TrimSpace(string(b[:n])), pidfd
}
