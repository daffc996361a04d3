package profiles

import (
	"net/netip"
	"slices"
)

// An entry with a prefix opens the addresses of the prefix but for those that a
// longer built-in denial closes: 0.0.0.0/0 does not open 10.0.0.0/8, while
// 10.1.2.0/24 opens itself. So "below" means: within the prefix, and no denial
// stands between.

// below reports whether what the longer prefix opens, the shorter opens too.
func below(long, short netip.Prefix) bool {
	if long.Bits() < short.Bits() || !short.Contains(long.Addr()) {
		return false
	}
	for _, d := range denials() {
		if d.Prefix.Bits() > short.Bits() && d.Prefix.Bits() <= long.Bits() && d.Prefix.Contains(long.Addr()) {
			return false
		}
	}
	return true
}

// entrySet finds the entries that could stand above a given one.
type entrySet struct {
	exact map[Entry]bool
	// ports lists the entries of one host or prefix and protocol, by an entry
	// with no port.
	ports map[Entry][]Entry
	// lens are the prefix lengths in use, of IPv4 and IPv6.
	lens4, lens6 [129]bool
}

func newEntrySet(list []Entry) *entrySet {
	s := &entrySet{exact: make(map[Entry]bool, len(list)), ports: map[Entry][]Entry{}}
	for _, e := range list {
		if e.Prefix.IsValid() {
			s.lens(e.Prefix.Addr())[e.Prefix.Bits()] = true
		}
		s.exact[e] = true
		any := e
		any.Port = 0
		s.ports[any] = append(s.ports[any], e)
	}
	return s
}

func (s *entrySet) lens(a netip.Addr) *[129]bool {
	if a.Is4() {
		return &s.lens4
	}
	return &s.lens6
}

// at lists the entries with the host or prefix and the protocol of e, and a
// port that meets e's.
func (s *entrySet) at(e Entry) []Entry {
	if e.Port == 0 {
		return s.ports[e]
	}
	var out []Entry
	if s.exact[e] {
		out = append(out, e)
	}
	e.Port = 0
	if s.exact[e] {
		out = append(out, e)
	}
	return out
}

// above calls yield with each entry of s that meets e's port, and whose host is
// e's or whose prefix opens what e's opens.
func (s *entrySet) above(e Entry, yield func(Entry)) {
	if !e.Prefix.IsValid() {
		for _, x := range s.at(e) {
			yield(x)
		}
		return
	}
	lens := s.lens(e.Prefix.Addr())
	for n := 0; n <= e.Prefix.Bits(); n++ {
		if !lens[n] {
			continue
		}
		p, _ := e.Prefix.Addr().Prefix(n)
		xs := s.at(Entry{Prefix: p, Port: e.Port, UDP: e.UDP})
		if len(xs) == 0 || !below(e.Prefix, p) {
			continue
		}
		for _, x := range xs {
			yield(x)
		}
	}
}

// meetEntries is the real intersection of two lists. A host and a prefix have
// none that could be known here.
func meetEntries(a, b []Entry) []Entry {
	out := []Entry{}
	cross := func(low []Entry, high *entrySet) {
		for _, e := range low {
			high.above(e, func(x Entry) {
				z := e
				z.Port = max(e.Port, x.Port)
				out = append(out, z)
			})
		}
	}
	cross(a, newEntrySet(b))
	cross(b, newEntrySet(a))
	return maximal(out)
}

// maximal sorts a list and drops what another entry opens already; nil stays nil.
func maximal(list []Entry) []Entry {
	if list == nil {
		return nil
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compareEntries)
	list = slices.Compact(list)
	have := newEntrySet(list)
	out := make([]Entry, 0, len(list))
	for _, e := range list {
		if !covered(e, have) {
			out = append(out, e)
		}
	}
	return out
}

// covered reports whether another entry of the list opens all that e opens.
func covered(e Entry, have *entrySet) bool {
	wide := e
	for _, port := range []uint16{0, e.Port} {
		if wide.Port = port; wide != e && have.exact[wide] {
			return true
		}
		if !e.Prefix.IsValid() {
			continue
		}
		lens := have.lens(e.Prefix.Addr())
		for n := range e.Prefix.Bits() {
			if !lens[n] {
				continue
			}
			p, _ := e.Prefix.Addr().Prefix(n)
			if have.exact[Entry{Prefix: p, Port: port, UDP: e.UDP}] && below(e.Prefix, p) {
				return true
			}
		}
	}
	return false
}
