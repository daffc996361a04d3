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

// storeReceipt keeps a terminal run's receipt. Whose run it was, its limits and
// its network are the broker's word; the rest is the caller's, and says so.
func (s *Server) storeReceipt(h *held, raw json.RawMessage) error {
	if len(raw) > maxReceipt {
		return fmt.Errorf("receipt of %d bytes; at most %d", len(raw), maxReceipt)
	}
	var r runner.Receipt
	if err := wire.Decode(raw, &r); err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	r.Run, r.Client, r.Sender = h.info.Run, "", ""
	for i := range r.Layers {
		l := &r.Layers[i]
		if l.Layer != "limits" && l.Layer != "egress" && l.Applied {
			l.By = "applied by caller: " + l.By
		}
	}
	s.ended(&r)
	return s.write(h, &r)
}

// storeOrphan writes the receipt of a run whose supervisor ended first.
func (s *Server) storeOrphan(h *held, c runner.Counted) error {
	r := &runner.Receipt{V: 1, Run: h.info.Run, Profile: h.info.Profile, Argv: h.info.Argv, Started: h.info.Started,
		MS: time.Since(h.info.Started).Milliseconds(), Denials: append([]runner.Denial{}, c.Denials...), DenialsLost: c.Lost,
		Notes: []string{"the supervisor ended before the run; every process of the run was killed"}, Weaker: []string{}}
	r.Exit.Code, r.Exit.Signal, r.Exit.Cause = 137, "SIGKILL", "killed"
	r.Usage = runner.Usage{CPUms: c.CPUms, MaxRSS: c.MaxRSS, PidsPeak: c.PidsPeak}
	s.ended(r)
	return s.write(h, r)
}

// write stores a receipt so that a crash leaves the old file or the new one.
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
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
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
