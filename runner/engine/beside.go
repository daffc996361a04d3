package engine

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"

	bpf "lockbox/bpf/egress"
	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/runner/egress"
	"lockbox/runner/slot"
)

// The programs hold every cgroup below the parent, and one without an entry may
// not even make a socket. So once they are pinned, a run that has only a limit
// needs an entry too: a closed one. Its network is its own empty namespace, in
// which it may bind and talk to itself.
//
//	run with a limit only          run with net direct
//	-----------------------        -------------------
//	programs pinned? closed entry
//	                               load, attach, pin
//	                               closed entries for those who were there before
//	ends: take the entry away

// inNamespace is what the start itself tries in an empty namespace: the
// namespace has to refuse it, not the programs (RFC 5737: in no network).
var inNamespace = runner.Egress{
	OwnNamespace: true,
	Rules:        []profiles.EgressRule{{Prefix: netip.MustParsePrefix("192.0.2.1/32"), Port: 9, UDP: true}},
}

// besideEgress is the closed entry of a run that asked for none, or nil where no
// programs are attached.
func (e *Engine) besideEgress(t *slot.Tree) (*runner.Egress, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if _, err := os.Lstat(e.bpfDir()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	parent, err := t.Parent()
	if err != nil {
		return nil, err
	}
	n, err := bpf.Attached(parent)
	if err != nil || n == 0 {
		return nil, err
	}
	return &inNamespace, nil
}

// adopt gives the closed entry to runs that started before the programs were
// attached.
func adopt(parent string, set *egress.Set, own uint64) error {
	known, err := set.Runs()
	if err != nil {
		return err
	}
	has := map[uint64]bool{own: true}
	for _, id := range known {
		has[id] = true
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, d := range entries {
		if !runner.ValidID(d.Name()) || !d.IsDir() {
			continue // of the doctor and of the programs' own proof
		}
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(parent, d.Name()), &st); err != nil || has[st.Ino] {
			continue
		}
		if err := set.Add(st.Ino, policy(&inNamespace, set)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// replace gives a run its entry. Somebody may have adopted its cgroup already;
// no process is in it yet.
func replace(set *egress.Set, id uint64, p egress.Policy) error {
	err := set.Add(id, p)
	if errors.Is(err, os.ErrExist) {
		err = errors.Join(set.Remove(id), set.Add(id, p))
	}
	return err
}

// removeLate takes away the entry that somebody gave to a run that had none.
func (h *hold) removeLate() error {
	if h.late == "" || os.Geteuid() != 0 {
		return nil
	}
	if _, err := os.Lstat(h.late); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	parent := filepath.Dir(h.slot.Dir())
	if n, err := bpf.Attached(parent); err != nil || n == 0 {
		return err
	}
	set, err := egress.Open(parent, h.late)
	if err != nil {
		return err
	}
	return errors.Join(set.Remove(h.slot.ID()), set.Close())
}
