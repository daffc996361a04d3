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
	for _, d := range denials {
		if d.Prefix.Bits() > short.Bits() && d.Prefix.Bits() <= long.Bits() && d.Prefix.Contains(long.Addr()) {
			return false
		}
	}
	return true
}

// entrySet finds the entries that could stand above a given one.
type entrySet map[Entry][]Entry

// key is what entries that could overlap share; ports are looked at later.
func (e Entry) key() Entry { return Entry{Host: e.Host, Prefix: e.Prefix, UDP: e.UDP} }

func newEntrySet(list []Entry) entrySet {
	s := make(entrySet, len(list))
	for _, e := range list {
		s[e.key()] = append(s[e.key()], e)
	}
	return s
}

// above calls yield with each entry of s whose host is e's or whose prefix
// opens what e's opens.
func (s entrySet) above(e Entry, yield func(Entry)) {
	if !e.Prefix.IsValid() {
		for _, x := range s[e.key()] {
			yield(x)
		}
		return
	}
	for n := 0; n <= e.Prefix.Bits(); n++ {
		p, _ := e.Prefix.Addr().Prefix(n)
		xs := s[Entry{Prefix: p, UDP: e.UDP}]
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
	cross := func(low []Entry, high entrySet) {
		for _, e := range low {
			high.above(e, func(x Entry) {
				if e.Port == 0 || x.Port == 0 || e.Port == x.Port {
					z := e
					z.Port = max(e.Port, x.Port)
					out = append(out, z)
				}
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
	have := make(map[Entry]bool, len(list))
	for _, e := range list {
		have[e] = true
	}
	out := make([]Entry, 0, len(list))
	for _, e := range list {
		if !covered(e, have) {
			out = append(out, e)
		}
	}
	return out
}

// covered reports whether another entry of the list opens all that e opens.
func covered(e Entry, have map[Entry]bool) bool {
	wide := e
	for _, port := range []uint16{0, e.Port} {
		if wide.Port = port; wide != e && have[wide] {
			return true
		}
		if !e.Prefix.IsValid() {
			continue
		}
		for n := range e.Prefix.Bits() {
			p, _ := e.Prefix.Addr().Prefix(n)
			if have[Entry{Prefix: p, Port: port, UDP: e.UDP}] && below(e.Prefix, p) {
				return true
			}
		}
	}
	return false
}
