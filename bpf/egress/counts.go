package egress

import (
	"encoding/binary"
	"fmt"
)

func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// counters is struct counters of run.h.
type counters struct {
	N    [hooks][reasons]uint64
	Lost uint64
}

// A Counter is how often a hook refused a run for one reason. Exact.
type Counter struct {
	Hook   Hook
	Reason Reason
	N      uint64
}

// Counters returns the refusals of a run that are not zero, and the number of events that found its ring full. Id 0 is every
// cgroup without an entry.
func (s *Set) Counters(id uint64) (out []Counter, lost uint64, err error) {
	var cpus []counters
	if err := s.counts.Lookup(id, &cpus); err != nil {
		return nil, 0, fmt.Errorf("read the counters of run %d: %w", id, err)
	}
	for h := range hooks {
		for r := range Reason(reasons) {
			var n uint64
			for i := range cpus {
				n += cpus[i].N[h][r]
			}
			if n > 0 {
				out = append(out, Counter{h, r, n})
			}
		}
	}
	for i := range cpus {
		lost += cpus[i].Lost
	}
	return out, lost, nil
}
