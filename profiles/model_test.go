package profiles_test

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"lockbox/profiles"
)

// newRand seeds from the clock and logs the seed.
func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// under is the model's own idea of "at or below".
func under(p, dir string) bool {
	return strings.HasPrefix(strings.TrimSuffix(p, "/")+"/", strings.TrimSuffix(dir, "/")+"/")
}

func level(p string) int { return strings.Count(strings.TrimSuffix(p, "/"), "/") }

// modelAccess is the definition, word for word.
func modelAccess(p *profiles.Profile, path string) profiles.Access {
	var a profiles.Access
	for _, g := range p.Grants {
		if !under(path, g.Path) {
			continue
		}
		got := g.Access
		for _, c := range p.Carves {
			if under(path, c.Path) && level(c.Path) >= level(g.Path) {
				got &= c.Cap
			}
		}
		a |= got
	}
	return a
}

func modelParent(p string) string {
	i := strings.LastIndex(p, "/")
	return p[:max(i, 1)]
}

// model answers for profiles whose rules lie away from the built-in places and
// from the invariants.
type model struct {
	p      *profiles.Profile
	rules  map[string]profiles.Access
	mounts map[string]bool
}

func newModel(p *profiles.Profile) *model {
	m := &model{p, map[string]profiles.Access{}, map[string]bool{}}
	named := map[string]bool{}
	for _, g := range p.Grants {
		named[g.Path] = true
	}
	for _, c := range p.Carves {
		named[c.Path] = true
	}
	for n := range named {
		if a := modelAccess(p, n); a != m.above(n) {
			m.rules[n] = a
			m.mounts[n] = true
		}
	}
	for n, a := range m.rules {
		if m.above(n)&^a == 0 {
			continue
		}
		for d := modelParent(n); d != "/"; d = modelParent(d) {
			if modelAccess(p, d)&profiles.Write != 0 {
				m.mounts[d] = true
			}
		}
	}
	return m
}

func (m *model) above(p string) profiles.Access {
	if p == "/" {
		return 0
	}
	return modelAccess(m.p, modelParent(p))
}

func (m *model) home(p string) string {
	for p = modelParent(p); p != "/" && !m.mounts[p]; p = modelParent(p) {
	}
	return p
}

func (m *model) allow(op profiles.Op, o profiles.Object) bool {
	a := modelAccess(m.p, o.Path)
	w := a&profiles.Write != 0
	w2 := modelAccess(m.p, o.To)&profiles.Write != 0
	switch op {
	case profiles.OpRead:
		return a&profiles.Read != 0
	case profiles.OpExec:
		return a&profiles.Exec != 0
	case profiles.OpWrite, profiles.OpCreate, profiles.OpMetadata:
		return w
	case profiles.OpRemove:
		return w && !m.mounts[o.Path]
	case profiles.OpRename, profiles.OpLink:
		return w && w2 && !m.mounts[o.Path] && !m.mounts[o.To] && m.home(o.Path) == m.home(o.To)
	case profiles.OpStat:
		if a != 0 {
			return true
		}
		for n, x := range m.rules {
			if x != 0 && under(n, o.Path) {
				return true
			}
		}
	}
	return false
}

// modelNet answers for addresses that are not loopback, hosts unpinned.
func modelNet(p *profiles.Profile, o profiles.Object) bool {
	if o.Addr.IsUnspecified() { // loopback, and no server of the run is asked for
		return p.Net.Mode == profiles.NetNone
	}
	if p.Net.Mode != profiles.NetDirect || o.Port == 53 {
		return false
	}
	a := as16(o.Addr)
	longest := func(best int, x netip.Prefix) int {
		n := x.Bits()
		if x.Addr().Is4() {
			n += 96
		}
		if n > best && netip.PrefixFrom(as16(x.Addr()), n).Masked() == netip.PrefixFrom(a, n).Masked() {
			return n
		}
		return best
	}
	open, closed := -1, -1
	for _, e := range p.Net.Allow {
		if e.Host == "" && (e.Port == 0 || e.Port == o.Port) && e.UDP == (o.Proto == "udp") {
			open = longest(open, e.Prefix)
		}
	}
	for _, d := range profiles.Denials() {
		closed = longest(closed, d.Prefix)
	}
	return open >= 0 && open >= closed
}

// as16 puts all addresses into one 128-bit space, IPv4 in its mapped form.
func as16(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom16(b)
}
