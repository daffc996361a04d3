package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/runner"
	"lockbox/runner/broker/wire"
)

func (s *session) hello(wire.Request, []int) (any, error) {
	return map[string]any{"uid": s.peer.UID}, nil
}

// maxHosts bounds the names of one profile that are looked up.
const maxHosts = 256

func (s *session) resolve(q wire.Request, _ []int) (any, error) {
	var a wire.ResolveArgs
	if err := wire.Decode(q.Args, &a); err != nil {
		return nil, err
	}
	if len(a.Hosts) > maxHosts {
		return nil, fmt.Errorf("more than %d host names", maxHosts)
	}
	ctx, cancel := context.WithTimeout(s.ctx, idle)
	defer cancel()
	out := map[string][]netip.Addr{}
	for _, h := range a.Hosts {
		if len(h) > 253 {
			return nil, errors.New("host name longer than 253 bytes")
		}
		if out[h] != nil {
			continue
		}
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", h)
		if err != nil {
			return nil, fmt.Errorf("allow %q: %w", h, err)
		}
		for _, ip := range ips {
			out[h] = append(out[h], ip.Unmap())
		}
	}
	return wire.ResolveBody{Hosts: out}, nil
}

func (s *session) prepare(q wire.Request, _ []int) (any, error) {
	if s.run != nil {
		return nil, errors.New("this connection has a run already")
	}
	var a wire.PrepareArgs
	if err := wire.Decode(q.Args, &a); err != nil {
		return nil, err
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	h := &held{info: wire.Info{Run: a.Run, UID: s.peer.UID, Profile: a.Profile, Argv: wire.Shown(a.Argv), State: "prepared",
		Started: time.Now().UTC(), Memory: a.Memory, Pids: a.Pids, CPU: a.CPU, Net: "none"}}
	if a.Egress != nil {
		h.info.Net = "direct"
	}
	if err := s.srv.reserve(h); err != nil {
		return nil, err
	}
	hold, err := s.srv.cfg.Engine.Hold(a.Run, a.Limits(), a.Egress)
	if err != nil {
		s.srv.forget(h)
		return nil, err
	}
	s.srv.mu.Lock()
	h.hold = hold
	s.srv.mu.Unlock()
	s.run = h
	s.srv.count("prepared")
	return wire.PrepareBody{By: hold.By()}, nil
}

// reserve takes the id and the user's share.
func (s *Server) reserve(h *held) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Ended ones too: their receipts are others', maybe.
	if _, err := os.Lstat(s.receiptPath(h.info.Run)); s.runs[h.info.Run] != nil || !errors.Is(err, fs.ErrNotExist) {
		return errors.New("this run id is taken")
	}
	n := 0
	for _, o := range s.runs {
		if o.info.UID == h.info.UID {
			n++
		}
	}
	if n >= maxRuns && h.info.UID != 0 {
		return fmt.Errorf("%d runs at once; at most %d for one user", n, maxRuns)
	}
	h.hold = pending{}
	s.runs[h.info.Run] = h
	return nil
}

func (s *Server) forget(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, h.info.Run)
}

// adopt moves the supervisor's own child into the run's cgroup. The child waits
// on a pipe meanwhile and has not run a step of its script.
func (s *session) adopt(_ wire.Request, fds []int) (any, error) {
	if s.run.info.PID != 0 {
		return nil, errors.New("this run has its process already")
	}
	pid, err := childOf(fds[0], s.peer)
	if err != nil {
		return nil, err
	}
	if err := s.run.hold.Adopt(fds[0], pid); err != nil {
		return nil, err
	}
	// The number is the same process's still, so that is who was moved.
	if err := alive(fds[0]); err != nil {
		return nil, err
	}
	s.srv.mu.Lock()
	s.run.info.PID, s.run.info.State = pid, "running"
	s.srv.mu.Unlock()
	return struct{}{}, nil
}

// childOf checks that a pidfd names a living child of the peer that has nothing
// but the peer's uid, and returns its number.
func childOf(pidfd int, p *Peer) (int, error) {
	// EBADF for anything that is no pidfd, whatever its fdinfo says.
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
		return 0, fmt.Errorf("adopt: no pidfd of a living process: %w", err)
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return 0, err
	}
	pid := 0
	fmt.Sscan(field(info, "Pid:"), &pid)
	if pid <= 1 {
		return 0, errors.New("adopt: the descriptor is no pidfd of a living process")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	// All four: a child that is a set-user-ID program is not the caller's to limit.
	uids := strings.Fields(field(status, "Uid:"))
	own := len(uids) == 4
	for _, u := range uids {
		own = own && u == strconv.Itoa(p.UID)
	}
	if !own || field(status, "PPid:") != strconv.Itoa(p.PID) {
		return 0, errors.New("adopt: that process is not the caller's own child")
	}
	// Both numbers were those of whom they were taken for.
	return pid, errors.Join(alive(pidfd), alive(p.pidfd))
}

// field returns the value of a line of /proc.
func field(text []byte, name string) string {
	for _, line := range strings.Split(string(text), "\n") {
		if v, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (s *session) killOwn(wire.Request, []int) (any, error) {
	return struct{}{}, s.run.hold.Kill()
}

func (s *session) count(wire.Request, []int) (any, error) {
	if err := s.run.hold.Kill(); err != nil {
		return nil, err
	}
	c, err := s.run.hold.Counted()
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	if c.Cause == "" && s.run.killed {
		c.Cause = "killed"
	}
	return c, err
}

func (s *session) finish(q wire.Request, _ []int) (any, error) {
	var a wire.FinishArgs
	if err := wire.Decode(q.Args, &a); err != nil {
		return nil, err
	}
	h := s.run
	h.hold.Kill()
	c, err := h.hold.Counted()
	if serr := s.srv.storeReceipt(h, a.Receipt, c); serr != nil {
		err = errors.Join(err, serr, s.srv.storeOrphan(h, c))
	}
	s.run = nil
	s.done = true
	return struct{}{}, errors.Join(err, s.srv.release(h))
}

func (s *session) ps(wire.Request, []int) (any, error) {
	all := s.peer.UID == 0 || s.srv.isOperator(s.peer)
	out := []wire.Info{}
	s.srv.mu.Lock()
	for _, h := range s.srv.runs {
		if all || h.info.UID == s.peer.UID {
			out = append(out, h.info)
		}
	}
	s.srv.mu.Unlock()
	sort.Slice(out, func(i, j int) bool { return out[i].Run < out[j].Run })
	return fit(out), nil
}

// fit makes a list fit a message, however much its runs have to say: first
// with short names and no arguments, then without the rest.
func fit(list []wire.Info) []wire.Info {
	left := listBytes
	for i := range list {
		b, err := json.Marshal(list[i])
		if err != nil || left-len(b) < listBytes/2 {
			list[i].Profile, list[i].Argv = wire.Clip(list[i].Profile), nil
			b, err = json.Marshal(list[i])
		}
		if left -= len(b) + 1; err != nil || left < 0 {
			return list[:i]
		}
	}
	return list
}

// listBytes is less than a message.
const listBytes = 3 << 20

func (s *session) kill(q wire.Request, _ []int) (any, error) {
	var a wire.RunArgs
	if err := wire.Decode(q.Args, &a); err != nil {
		return nil, err
	}
	hold := s.srv.holdOf(a.Run)
	if hold == nil {
		return nil, errors.New("the run has ended")
	}
	s.srv.markKilled(a.Run)
	return struct{}{}, hold.Kill()
}

// markKilled notes that somebody asked for the run's end, for its receipt.
func (s *Server) markKilled(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.runs[run]; h != nil {
		h.killed = true
	}
}

// holdOf returns the cgroup of a live run, which prepare may be making, or nil.
func (s *Server) holdOf(run string) runner.Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.runs[run]; h != nil {
		return h.hold
	}
	return nil
}

func (s *session) receipt(q wire.Request, _ []int) (any, error) {
	var a wire.RunArgs
	if err := wire.Decode(q.Args, &a); err != nil {
		return nil, err
	}
	b, err := s.srv.readReceipt(a.Run)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(b), nil
}

// pending holds the place of a run whose cgroup is being made.
type pending struct{}

func (pending) FD() int                          { return -1 }
func (pending) TaskFDs() []int                   { return nil }
func (pending) Adopt(int, int) error             { return unix.EAGAIN }
func (pending) Moves() bool                      { return false }
func (pending) Kill() error                      { return unix.EAGAIN }
func (pending) Counted() (runner.Counted, error) { return runner.Counted{}, unix.EAGAIN }
func (pending) Close() error                     { return nil }
func (pending) By() string                       { return "" }
func (pending) Finish(*runner.Receipt) error     { return nil }
