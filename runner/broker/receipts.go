package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lockbox/runner"
	"lockbox/runner/broker/wire"
	"lockbox/sandbox"
)

// maxReceipt bounds what a supervisor hands over, in bytes.
const maxReceipt = 1 << 20

// stored is a receipt on disk: who owns it, and the receipt.
type stored struct {
	UID     int             `json:"uid"`
	Receipt json.RawMessage `json:"receipt"`
}

func (s *Server) receiptPath(id string) string {
	return filepath.Join(s.cfg.Home, "runner", "receipts", id+".json")
}

// storeReceipt keeps a terminal run's receipt. Whose run it was, its usage, its
// limits and its network are the broker's word; the rest is the caller's, and says
// so.
func (s *Server) storeReceipt(h *held, raw json.RawMessage, c runner.Counted) error {
	if len(raw) > maxReceipt {
		return fmt.Errorf("receipt of %d bytes; at most %d", len(raw), maxReceipt)
	}
	var r runner.Receipt
	if err := wire.Decode(raw, &r); err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	r.V, r.Run, r.Client, r.Sender = 1, h.info.Run, "", ""
	for i := range r.Layers {
		l := &r.Layers[i]
		switch {
		case !l.Applied:
		case l.Layer == "limits" && h.limited(), l.Layer == "egress" && h.info.Net == "direct":
			// The cgroup holds from the moment that the child was in it.
			l.Applied, l.Verified = h.info.PID != 0, l.Verified && h.info.PID != 0
		default:
			l.By = "applied by caller: " + l.By
		}
	}
	if r.Usage = (runner.Usage{CPUms: c.CPUms, MaxRSS: c.MaxRSS, PidsPeak: r.Usage.PidsPeak}); c.PidsPeak < 0 {
		r.Usage.PidsPeak = -1
	} else if r.Usage.PidsPeak != c.PidsPeak-1 { // the run's init is not counted
		r.Usage.PidsPeak = c.PidsPeak
	}
	denials := append([]runner.Denial{}, c.Denials...)
	for _, d := range r.Denials {
		if d.Kind != "net" {
			denials = append(denials, d)
		}
	}
	r.Denials, r.DenialsLost = denials, c.Lost
	s.ended(h, c)
	return s.write(h, &r)
}

// limited: the cgroup has a limit.
func (h *held) limited() bool { return h.info.Memory != 0 || h.info.Pids != 0 || h.info.CPU != 0 }

// storeOrphan writes the receipt of a run whose supervisor handed over none. A run
// that never had a process has none.
func (s *Server) storeOrphan(h *held, c runner.Counted) error {
	if h.info.PID == 0 {
		return nil
	}
	r := &runner.Receipt{V: 1, Run: h.info.Run, Profile: h.info.Profile, Argv: h.info.Argv, Started: h.info.Started,
		MS: time.Since(h.info.Started).Milliseconds(), Denials: append([]runner.Denial{}, c.Denials...), DenialsLost: c.Lost,
		Notes:  []string{"the supervisor ended without a receipt: what was left of the run was killed, and how its command ended is not known"},
		Layers: []sandbox.Layer{}, Weaker: []string{}}
	r.Exit.Code, r.Exit.Signal, r.Exit.Cause = 137, "SIGKILL", "killed"
	r.Usage = runner.Usage{CPUms: c.CPUms, MaxRSS: c.MaxRSS, PidsPeak: c.PidsPeak}
	s.ended(h, c)
	return s.write(h, r)
}

// write stores a receipt, once: a crash leaves the whole file or none, and no run
// replaces another one's.
func (s *Server) write(h *held, r *runner.Receipt) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	b, err := json.Marshal(stored{UID: h.info.UID, Receipt: raw})
	if err != nil {
		return err
	}
	path := s.receiptPath(h.info.Run)
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(tmp, path)
	}
	if err = errors.Join(err, os.Remove(tmp)); err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	return nil
}

func (s *Server) load(id string) (*stored, error) {
	b, err := os.ReadFile(s.receiptPath(id))
	if err != nil {
		return nil, err
	}
	var st stored
	if err := json.Unmarshal(b, &st); err != nil {
		return nil, err
	}
	return &st, nil
}

func (s *Server) receiptOwner(id string) (int, bool) {
	st, err := s.load(id)
	if err != nil {
		return -1, false
	}
	return st.UID, true
}

func (s *Server) readReceipt(id string) ([]byte, error) {
	st, err := s.load(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the run has not ended")
	}
	if err != nil {
		return nil, err
	}
	return st.Receipt, nil
}
