package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/runner/broker/wire"
)

// Config of a Server.
type Config struct {
	Home   string // state folder; receipts go to Home/runner/receipts
	Engine runner.Engine
	// Operators is the group whose members may read every run; −1 for none.
	Operators int
	Log       *slog.Logger
}

// Server is the broker.
type Server struct {
	cfg Config

	mu    sync.Mutex // guards what follows
	runs  map[string]*held
	conns map[int]int // connections by uid
	stats
	wg sync.WaitGroup
}

// held is one run that the broker holds.
type held struct {
	info   wire.Info
	hold   runner.Hold
	killed bool // somebody asked for its end
}

// maxRuns and maxConns of one user at a time; root has no bound but the map's. A
// connection costs two descriptors and what has come of a message.
const (
	maxRuns  = 256
	maxConns = maxRuns + 32
)

// New prepares a server: it refuses hosts on which the start of a child could be
// read by its user, removes what an earlier broker left, and says what.
func New(cfg Config) (*Server, error) {
	if err := safeHost(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(filepath.Join(cfg.Home, "runner", "receipts"), 0o700); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	left, err := cfg.Engine.Sweep()
	if err != nil {
		return nil, fmt.Errorf("remove what an earlier runner left: %w", err)
	}
	for _, id := range left {
		cfg.Log.Info("killed a run that an earlier runner left", "run", id)
	}
	if err := proveEgress(cfg.Engine); err != nil {
		return nil, fmt.Errorf("refusing to serve: the egress programs are not proved: %w", err)
	}
	return &Server{cfg: cfg, runs: map[string]*held{}, conns: map[int]int{}}, nil
}

// proveEgress has the engine load and prove its programs, and take away the
// entries of runs that are gone, before there is any run: what attaches beside
// live runs refuses them everything for a moment, until each has its entry.
func proveEgress(e runner.Engine) error {
	id, err := runner.NewID()
	if err != nil {
		return err
	}
	hold, err := e.Hold(id, profiles.Limits{}, &runner.Egress{})
	if err != nil {
		return err
	}
	return hold.Close()
}

// safeHost: with fs.suid_dumpable 1 a child that has changed its uid but shares
// this process's memory could be traced by its user; for the same reason this
// process is not dumpable, and never becomes so again.
func safeHost() error {
	b, err := os.ReadFile("/proc/sys/fs/suid_dumpable")
	if err != nil {
		return fmt.Errorf("fs.suid_dumpable: %w", err)
	}
	if strings.TrimSpace(string(b)) == "1" {
		return errors.New("fs.suid_dumpable is 1: other users could read this service's memory; set it to 0 or 2")
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// Serve answers connections until the context ends or the listener fails. Runs
// that are still held are killed at the end: without a broker nobody counts.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer s.end()
	defer cancel() // the connections, which end waits for
	for {
		c, err := l.AcceptUnix()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ECONNABORTED):
			// It passes when somebody goes; the live runs must not end for it.
			s.cfg.Log.Warn("accept", "error", err.Error())
			time.Sleep(acceptPause)
			continue
		default:
			return fmt.Errorf("accept: %w", err)
		}
		s.wg.Go(func() { s.serve(ctx, c) })
	}
}

// acceptPause is how long a broker without descriptors or memory waits for some.
const acceptPause = 50 * time.Millisecond

// end kills what is held and waits for the connections.
func (s *Server) end() {
	s.mu.Lock()
	all := make([]runner.Hold, 0, len(s.runs))
	for _, h := range s.runs {
		all = append(all, h.hold)
	}
	s.mu.Unlock()
	for _, h := range all {
		h.Kill()
	}
	s.wg.Wait()
}

// enter counts a connection of the user, unless it is one too many.
func (s *Server) enter(uid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[uid] >= maxConns && uid != 0 {
		return false
	}
	s.conns[uid]++
	return true
}

func (s *Server) leave(uid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[uid]--; s.conns[uid] == 0 {
		delete(s.conns, uid)
	}
}

// idle bounds how long a connection may say nothing before it has a run.
const idle = 30 * time.Second

func (s *Server) serve(ctx context.Context, c *net.UnixConn) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	c.SetDeadline(time.Now().Add(idle))
	peer, err := identify(c)
	if err != nil {
		s.count("refused")
		s.cfg.Log.Warn("refused a caller", "reason", err.Error())
		send(c, wire.Reply{V: wire.Version, Error: err.Error(), Hint: hintFor(err)})
		return
	}
	defer peer.Close()
	if !s.enter(peer.UID) {
		s.count("refused")
		send(c, wire.Reply{V: wire.Version, Error: fmt.Sprintf("%d connections at once are too many for one user", maxConns)})
		return
	}
	defer s.leave(peer.UID)
	sess := &session{ctx: ctx, srv: s, conn: c, peer: peer}
	defer sess.end()
	for {
		if sess.run != nil {
			c.SetDeadline(time.Time{}) // as long as the run lives
		} else {
			c.SetDeadline(time.Now().Add(idle))
		}
		body, fds, err := wire.ReadFrame(unixConn{c})
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				s.cfg.Log.Info("connection ended", "uid", peer.UID, "reason", err.Error())
			}
			return
		}
		answer := sess.answer(body, fds)
		wire.CloseAll(fds)
		if err := send(c, answer); err != nil || sess.done {
			return
		}
	}
}

func hintFor(err error) string {
	if errors.Is(err, ErrConfined) {
		return "inside a run only what its profile names can be reached"
	}
	return ""
}

func send(c *net.UnixConn, r wire.Reply) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return wire.WriteFrame(unixConn{c}, b)
}

// session is one connection.
type session struct {
	ctx  context.Context // ends with the service
	srv  *Server
	conn *net.UnixConn
	peer *Peer
	run  *held // prepared on this connection
	done bool
}

// answer decodes, decides by the table, and calls the handler.
func (s *session) answer(body []byte, fds []int) wire.Reply {
	fail := func(err error) wire.Reply { return wire.Reply{V: wire.Version, Error: err.Error()} }
	var q wire.Request
	if err := wire.Decode(body, &q); err != nil {
		return fail(fmt.Errorf("bad request: %w", err))
	}
	if q.V != wire.Version {
		return wire.Reply{V: wire.Version, Error: fmt.Sprintf("protocol %d, this runner speaks %d", q.V, wire.Version), Hint: "restart lockbox-runner after an update"}
	}
	e, ok := table[q.Req]
	if !ok {
		return fail(fmt.Errorf("no request %q", wire.Clip(q.Req)))
	}
	if len(fds) != e.fds {
		return fail(fmt.Errorf("%s carries %d descriptors, want %d", q.Req, len(fds), e.fds))
	}
	owner, named := s.srv.ownerOf(q)
	if !s.allowed(e, owner, named) {
		s.srv.count("denied")
		s.srv.cfg.Log.Warn("refused a request", "uid", s.peer.UID, "request", q.Req)
		// The same words whether the run is another's or none.
		return fail(fmt.Errorf("no such run, or not yours"))
	}
	out, err := e.handle(s, q, fds)
	if err != nil {
		return fail(err)
	}
	b, err := json.Marshal(out)
	if err != nil {
		return fail(err)
	}
	return wire.Reply{V: wire.Version, Body: b}
}

// ownerOf finds the owner of the run that a request names, live or ended.
func (s *Server) ownerOf(q wire.Request) (uid int, named bool) {
	var a wire.RunArgs
	if q.Req != "kill" && q.Req != "receipt" {
		return -1, false
	}
	if wire.Decode(q.Args, &a) != nil || !wire.ValidRun(a.Run) {
		return -1, false
	}
	s.mu.Lock()
	h := s.runs[a.Run]
	s.mu.Unlock()
	if h != nil {
		return h.info.UID, true
	}
	return s.receiptOwner(a.Run)
}

func (s *Server) isOperator(p *Peer) bool {
	return s.cfg.Operators >= 0 && (p.GID == s.cfg.Operators || slices.Contains(p.Groups, s.cfg.Operators))
}

// end is the end of the connection: a run that was not finished is killed.
func (s *session) end() {
	h := s.run
	if h == nil {
		return
	}
	s.run = nil
	err := h.hold.Kill()
	c, cerr := h.hold.Counted()
	err = errors.Join(err, cerr, s.srv.storeOrphan(h, c), s.srv.release(h))
	log := s.srv.cfg.Log.With("run", h.info.Run, "uid", h.info.UID)
	if err != nil {
		log.Error("a run whose supervisor ended", "error", err.Error())
		return
	}
	log.Info("killed a run whose supervisor ended")
}

// release removes everything of a run.
func (s *Server) release(h *held) error {
	err := h.hold.Close()
	s.mu.Lock()
	delete(s.runs, h.info.Run)
	s.mu.Unlock()
	return err
}

// unixConn carries frames over a net.UnixConn, which knows deadlines.
type unixConn struct{ *net.UnixConn }

func (c unixConn) ReadMsg(b, oob []byte) (n, oobn, flags int, err error) {
	n, oobn, flags, _, err = c.ReadMsgUnix(b, oob)
	return n, oobn, flags, err
}

func (c unixConn) WriteMsg(b, oob []byte) (int, error) {
	n, _, err := c.WriteMsgUnix(b, oob, nil)
	return n, err
}
