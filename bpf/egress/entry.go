package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/cilium/ebpf"
)

// Limits of the maps. A run beyond one of them is refused; nothing is evicted.
const (
	MaxRuns   = 4096  // runs at once
	MaxRules  = 65536 // rules of all runs together
	MaxPaths  = 65536 // Unix socket paths of all runs together
	MaxListen = 32    // ports a run may listen on
)

// IP protocol numbers of rules.
const (
	TCP = 6
	UDP = 17
)

// A Rule opens one destination. The zero Rule is refused.
type Rule struct {
	Prefix netip.Prefix
	Port   uint16 // zero: any port. 53 stays shut
	Proto  uint8  // TCP or UDP
	// Pinned: the address came from a name, so it opens nothing that a built-in denial closes, however long it is. Else whoever
	// answers for the name could point it at the metadata service.
	Pinned bool
}

// An Entry is what one run may do. The zero Entry may make TCP and UDP sockets and talk to itself over loopback.
type Entry struct {
	Rules   []Rule
	Listen  []uint16 // ports that it may bind on any address, and whose clients get replies
	Unix    []string // absolute paths; one that ends in a slash means everything below
	OwnNet  bool     // it has a network namespace of its own: every port may be bound, and loopback is its own
	UnixAny bool     // Unix sockets are another layer's business
}

// Add gives the cgroup its entry. The entry itself comes last, so a failure on the way leaves a run that may do nothing, and
// takes back what was there.
func (s *Set) Add(id uint64, e Entry) (err error) {
	if id == 0 {
		return errors.New("BUG: cgroup id 0")
	}
	value, err := runValue(e)
	if err != nil {
		return err
	}
	if !e.UnixAny && !s.unix {
		return fmt.Errorf("restrict unix sockets by path: %w", ErrNoUnix)
	}
	var old [runSize]byte
	if err := s.runs.Lookup(id, &old); !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("run %d has an entry already: %w", id, errors.Join(os.ErrExist, err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Remove(id))
		}
	}()
	if err := s.counts.Update(id, make([]counters, ebpf.MustPossibleCPU()), ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("make the counters of run %d: %w", id, err)
	}
	for _, r := range e.Rules {
		key, bits, err := ruleKey(id, r)
		if err != nil {
			return err
		}
		if err := s.rules.Put(key, uint32(strength(e.Rules, r, bits))); err != nil {
			return fmt.Errorf("add a rule for %v: %w", r.Prefix, err)
		}
	}
	for _, p := range e.Unix {
		key, kind, err := pathKey(id, p)
		if err != nil {
			return err
		}
		if s.unix {
			if err := s.paths.Put(key, kind); err != nil {
				return fmt.Errorf("add unix socket %q: %w", p, err)
			}
		}
	}
	if err := s.runs.Update(id, value, ebpf.UpdateNoExist); err != nil {
		return fmt.Errorf("make the entry of run %d: %w", id, err)
	}
	return nil
}

// strength is the length that a rule is compared by. A pinned address has none of its own, but must not hide a wider rule that was written
// down, nor the same one.
func strength(rules []Rule, r Rule, bits int) int {
	if !r.Pinned {
		return bits
	}
	best := 0
	for _, o := range rules {
		if o.Pinned || o.Port != r.Port || o.Proto != r.Proto {
			continue
		}
		of, oa, ob, err := split(o.Prefix)
		rf, ra, _, err2 := split(r.Prefix)
		if err != nil || err2 != nil || of != rf || ob > bits {
			continue
		}
		if netip.PrefixFrom(netip.AddrFrom16(oa), ob).Masked().Contains(netip.AddrFrom16(ra)) {
			best = max(best, ob)
		}
	}
	return best
}

// Remove takes the entry first, which ends every connection of the run, then all that belonged to it. Removing a run that has
// nothing is no error.
func (s *Set) Remove(id uint64) error {
	errs := []error{gone(s.runs.Delete(id)), gone(s.deleteRing(id)), gone(s.counts.Delete(id))}
	errs = append(errs, deleteByRun(s.rules, id, ruleKeySize))
	if s.paths != nil {
		errs = append(errs, deleteByRun(s.paths, id, pathKeySize))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove run %d: %w", id, err)
	}
	return nil
}

// Retire takes the rules and Unix paths back and leaves the entry and its counters: from now on every packet is refused and counted.
func (s *Set) Retire(id uint64) error {
	err := deleteByRun(s.rules, id, ruleKeySize)
	if s.paths != nil {
		err = errors.Join(err, deleteByRun(s.paths, id, pathKeySize))
	}
	return err
}

// Runs lists the cgroups with an entry, or with something left of one.
func (s *Set) Runs() ([]uint64, error) {
	seen := map[uint64]bool{}
	var out []uint64
	add := func(id uint64) {
		if id != 0 && !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	for _, m := range []*ebpf.Map{s.runs, s.counts, s.rings} {
		keys, err := allKeys(m, 8)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			add(le64(k))
		}
	}
	for _, m := range []*ebpf.Map{s.rules, s.paths} {
		if m == nil {
			continue
		}
		keys, err := allKeys(m, int(m.KeySize()))
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			add(ruleKeyRun(k))
		}
	}
	return out, nil
}

// deleteByRun deletes the keys whose run is id. Others change the map meanwhile, which can restart the walk, so it ends with a
// pass that found nothing.
func deleteByRun(m *ebpf.Map, id uint64, size int) error {
	for range 16 {
		keys, err := allKeys(m, size)
		if err != nil {
			return err
		}
		n := 0
		for _, k := range keys {
			if ruleKeyRun(k) == id {
				n++
				if err := gone(m.Delete(k)); err != nil {
					return err
				}
			}
		}
		if n == 0 {
			return nil
		}
	}
	return errors.New("the map keeps changing")
}

func allKeys(m *ebpf.Map, size int) ([][]byte, error) {
	var out [][]byte
	var prev any
	for n := 0; n <= 2*int(m.MaxEntries()); n++ {
		key := make([]byte, size)
		err := m.NextKey(prev, &key)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("walk a map: %w", err)
		}
		out = append(out, key)
		prev = key
	}
	return nil, errors.New("walk a map: it keeps changing")
}

func gone(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}
