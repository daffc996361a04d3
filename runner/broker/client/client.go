// Package client speaks to the broker from a command. It is thin: it links no
// network code.
//
//	c, err := client.Dial("/run/lockbox/runner.sock")
//	receipt, err := run.Supervise(ctx, c)
package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/runner/broker/wire"
)

// Client speaks to a broker. It is a runner.Engine for one run.
type Client struct {
	mu  sync.Mutex // one request at a time
	c   conn
	err error // why the connection is closed

	Profile string   // what the broker shows of the run
	Argv    []string // secrets masked
}

// Error is what the broker answered.
type Error struct{ Msg, Hint string }

func (e *Error) Error() string { return "the runner refused: " + e.Msg }

// Dial connects to a broker's socket.
func Dial(path string) (*Client, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket AF_UNIX: %w", err)
	}
	// A service that was stopped must not hold a terminal for good.
	for _, o := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, o, &unix.Timeval{Sec: patience}); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("setsockopt: %w", err)
		}
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect %q: %w", path, err)
	}
	return &Client{c: conn(fd)}, nil
}

// patience is how long an answer may take, in seconds: longer than the service
// looks for addresses or waits for killed processes.
const patience = 60

// conn is a connected stream socket.
type conn int

func (c conn) ReadMsg(b, oob []byte) (n, oobn, flags int, err error) {
	for {
		n, oobn, flags, _, err = unix.Recvmsg(int(c), b, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return n, oobn, flags, err
		}
	}
}

func (c conn) WriteMsg(b, oob []byte) (int, error) {
	for {
		n, err := unix.SendmsgN(int(c), b, oob, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// Close ends the connection. A run that was not finished is killed.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c < 0 {
		return nil
	}
	return c.close(errors.New("the connection is closed"))
}

func (c *Client) close(why error) error {
	err := unix.Close(int(c.c))
	c.c, c.err = -1, why
	return err
}

// lost closes a connection on which questions and answers no longer match.
func (c *Client) lost(err error) error {
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, unix.EPIPE, unix.ECONNRESET} {
		if errors.Is(err, gone) {
			err = errors.New("it went away")
		}
	}
	if errors.Is(err, unix.EAGAIN) {
		err = fmt.Errorf("no answer in %d s", patience)
	}
	c.close(fmt.Errorf("the runner's service: %w", err))
	return c.err
}

// ask sends one request and decodes the answer into out.
func (c *Client) ask(what string, args, out any, fds ...int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	b, err := json.Marshal(wire.Request{V: wire.Version, Req: what, Args: raw})
	if err != nil {
		return err
	}
	if c.c < 0 {
		return c.err
	}
	// Who refuses a caller may have said why and gone before the question came.
	if err := wire.WriteFrame(c.c, b, fds...); err != nil && err != unix.EPIPE {
		return c.lost(err)
	}
	body, got, err := wire.ReadFrame(c.c)
	wire.CloseAll(got)
	if err != nil {
		return c.lost(err)
	}
	var r wire.Reply
	if err := json.Unmarshal(body, &r); err != nil {
		return c.lost(err)
	}
	if r.Error != "" {
		return &Error{r.Error, r.Hint}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(r.Body, out)
}

// Hello asks whether the broker would serve this process.
func (c *Client) Hello() error { return c.ask("hello", struct{}{}, nil) }

// Resolve looks up the host names of an allow list.
func (c *Client) Resolve(s *profiles.Sealed) (map[string][]netip.Addr, error) {
	var a wire.ResolveArgs
	for _, e := range s.Profile().Net.Allow {
		if e.Host != "" {
			a.Hosts = append(a.Hosts, e.Host)
		}
	}
	if len(a.Hosts) == 0 {
		return nil, nil
	}
	var b wire.ResolveBody
	err := c.ask("resolve", a, &b)
	return b.Hosts, err
}

// Sweep is the broker's own business.
func (c *Client) Sweep() ([]string, error) { return nil, nil }

// Hold asks for the run's cgroup.
func (c *Client) Hold(id string, l profiles.Limits, e *runner.Egress) (runner.Hold, error) {
	var b wire.PrepareBody
	err := c.ask("prepare", wire.PrepareArgs{Run: id, Profile: c.Profile, Argv: c.Argv, Memory: l.Memory, Pids: l.Pids, CPU: l.CPU, Egress: e}, &b)
	if err != nil {
		return nil, err
	}
	return &remoteHold{c: c, by: b.By}, nil
}

// remoteHold is a cgroup that the broker holds.
type remoteHold struct {
	c  *Client
	by string
}

func (h *remoteHold) FD() int        { return -1 }
func (h *remoteHold) TaskFDs() []int { return nil }
func (h *remoteHold) Moves() bool    { return true }
func (h *remoteHold) By() string     { return h.by }
func (h *remoteHold) Kill() error    { return h.c.ask("kill-own", struct{}{}, nil) }

// Adopt has the broker move the child behind the pidfd into the cgroup.
func (h *remoteHold) Adopt(pidfd, _ int) error { return h.c.ask("adopt", struct{}{}, nil, pidfd) }

func (h *remoteHold) Counted() (runner.Counted, error) {
	c := runner.Counted{CPUms: -1, MaxRSS: -1, PidsPeak: -1}
	err := h.c.ask("count", struct{}{}, &c)
	return c, err
}

// Finish hands the receipt over.
func (h *remoteHold) Finish(r *runner.Receipt) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return h.c.ask("finish", wire.FinishArgs{Receipt: raw}, nil)
}

// Close ends the connection, and with it everything of the run.
func (h *remoteHold) Close() error {
	return h.c.Close()
}

// PS lists runs: the caller's own, or all for root and operators.
func (c *Client) PS() ([]wire.Info, error) {
	var out []wire.Info
	err := c.ask("ps", struct{}{}, &out)
	return out, err
}

// Kill ends every process of a run.
func (c *Client) Kill(run string) error { return c.ask("kill", wire.RunArgs{Run: run}, nil) }

// Receipt returns the receipt of an ended run as JSON.
func (c *Client) Receipt(run string) ([]byte, error) {
	var raw json.RawMessage
	err := c.ask("receipt", wire.RunArgs{Run: run}, &raw)
	return raw, err
}

// Metrics returns Prometheus text.
func (c *Client) Metrics() (string, error) {
	var s string
	err := c.ask("metrics", struct{}{}, &s)
	return s, err
}
