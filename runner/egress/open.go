package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	bpf "lockbox/bpf/egress"
)

// A Set is the programs that hold every run below one parent cgroup. It may be used by several goroutines, one per run.
type Set struct {
	*bpf.Set
	parent string
}

// unfinished begins the name of a set that is not proved yet.
const unfinished = "new-"

// Open opens the set pinned in dir, or loads, attaches, proves and pins it. The parent is the directory of the cgroup above all runs; it
// must exist. The set is proved by a process in a cgroup of its own that is refused and, with an entry, is not. A set of another build is replaced once no run needs it.
func Open(parent, dir string) (_ *Set, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("egress programs: %w: need root, have uid %d", errors.ErrUnsupported, os.Geteuid())
	}
	id, err := cgroupID(parent)
	if err != nil {
		return nil, err
	}
	l, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := mountBPFFS(dir); err != nil {
		return nil, err
	}
	set, err := open(parent, id, dir)
	if err != nil {
		return nil, err
	}
	s := &Set{set, parent}
	addrs, err := hostAddrs()
	if err == nil {
		err = s.SetHostAddrs(builtin(), addrs)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func open(parent string, id uint64, dir string) (*bpf.Set, error) {
	old, err := oldSets(dir)
	if err != nil {
		return nil, err
	}
	build := bpf.Build(builtin())
	if old[build] {
		set, err := bpf.OpenPinned(filepath.Join(dir, build), id)
		if err == nil {
			if err := alone(parent); err != nil {
				return nil, errors.Join(err, set.Close())
			}
			return set, nil
		}
	}
	for name := range old {
		if err := unused(parent, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	fresh := filepath.Join(dir, unfinished+build)
	set, err := prove(parent, fresh, func() error {
		for name := range old {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return settle(parent, 1)
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(fresh))
	}
	if err = os.Rename(fresh, filepath.Join(dir, build)); err == nil {
		err = alone(parent)
	}
	if err != nil {
		return nil, errors.Join(err, set.Close())
	}
	return set, nil
}

// oldSets names what is pinned, and takes away what a killed Open left.
func oldSets(dir string) (map[string]bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	old := map[string]bool{}
	for _, e := range entries {
		if !e.IsDir() {
			continue // progs.debug and maps.debug, which the kernel puts into each bpffs
		}
		if strings.HasPrefix(e.Name(), unfinished) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
			continue
		}
		old[e.Name()] = true
	}
	return old, nil
}

// unused is an error while a run has its entry in a set that this build cannot use.
func unused(parent, dir string) error {
	runs, err := bpf.PinnedRuns(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // half removed
	}
	if err != nil {
		return err
	}
	live, err := children(parent)
	if err != nil {
		return err
	}
	n := 0
	for _, id := range runs {
		if live[id] {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("the egress programs in %q are of another build of lockbox, or lost their cgroup, and %d runs use them: end these first", dir, n)
	}
	return nil
}

// settle waits until no hook has more than n programs: the kernel takes a program off in a work queue after its last pin is gone.
func settle(parent string, n int) error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		have, err := bpf.Attached(parent)
		if err != nil || have <= n {
			return err
		}
	}
	return fmt.Errorf("%q still has more than %d egress programs attached: another mount namespace may have pinned a set of its own", parent, n)
}

// alone: a second set on the parent would refuse what only the first has an entry for.
func alone(parent string) error {
	n, err := bpf.Attached(parent)
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("%d egress programs are attached to %q, want 1: another mount namespace may have pinned a set of its own", n, parent)
	}
	return nil
}

// Sweep removes the entries of cgroups that are gone and returns their ids.
func (s *Set) Sweep() ([]uint64, error) {
	runs, err := s.Runs() // before the directories: a run makes its cgroup first
	if err != nil {
		return nil, err
	}
	live, err := children(s.parent)
	if err != nil {
		return nil, err
	}
	var swept []uint64
	for _, id := range runs {
		if live[id] {
			continue
		}
		if err := s.Remove(id); err != nil {
			return swept, err
		}
		swept = append(swept, id)
	}
	return swept, nil
}

// RemovePinned takes the programs away, with the bpffs at dir. It refuses while a process lives below the parent: that one would be
// without policy. Nothing pinned is no error.
func RemovePinned(parent, dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	l, err := lock(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	busy, err := populated(parent)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if busy {
		return fmt.Errorf("runs are alive in %q: end them before the programs that hold them are removed", parent)
	}
	if err := removePinned(dir); err != nil {
		return err
	}
	if err := settle(parent, 0); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func hostAddrs() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this host: %w", err)
	}
	var out []netip.Addr
	for _, a := range list {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if addr, ok := netip.AddrFromSlice(n.IP); ok && !addr.IsLoopback() {
			out = append(out, addr.Unmap())
		}
	}
	return out, nil
}
