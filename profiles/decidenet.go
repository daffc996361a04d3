package profiles

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// EgressRule is one destination that the kernel lets through in mode direct.
type EgressRule struct {
	Prefix netip.Prefix // IPv4 or IPv6, masked
	Port   uint16       // zero means any
	UDP    bool
	Pinned bool // an address that a name of the allow list had at the start
}

// Egress lists what direct mode lets through: the prefixes of the allow list and
// the pinned addresses of its hosts, but for those in a built-in denial. A host
// opens no private address, whatever its name resolves to.
func (s *Sealed) Egress() []EgressRule {
	if s.profile.Net.Mode != NetDirect {
		return nil
	}
	var out []EgressRule
	for _, e := range s.profile.Net.Allow {
		if e.Prefix.IsValid() {
			out = append(out, EgressRule{Prefix: e.Prefix, Port: e.Port, UDP: e.UDP})
			continue
		}
		for _, a := range s.hosts[e.Host] {
			a = a.WithZone("").Unmap()
			if _, bad := Denied(a); !bad && a.IsValid() {
				out = append(out, EgressRule{Prefix: netip.PrefixFrom(a, a.BitLen()), Port: e.Port, UDP: e.UDP, Pinned: true})
			}
		}
	}
	return out
}

// dnsPort stays shut in direct mode: names are resolved before the start.
const dnsPort = 53

func (s *Sealed) decideNet(op Op, o Object) Decision {
	var d Decision
	udp := o.Proto == "udp"
	if !udp && o.Proto != "" && o.Proto != "tcp" {
		return d.deny("protocol", fmt.Sprintf("%q is neither tcp nor udp", o.Proto), "builtin:protocol")
	}
	o.Addr = o.Addr.WithZone("").Unmap()
	if !o.Addr.IsValid() && o.Host != "" {
		if a, err := netip.ParseAddr(strings.Trim(o.Host, "[]")); err == nil {
			o.Addr, o.Host = a.WithZone("").Unmap(), ""
		}
	}
	d.step("net.mode", s.profile.Net.Mode.String(), "net.mode")
	if op == OpBind || op == OpListen {
		return s.decideBind(d, op, o)
	}
	// The kernel takes the unspecified address for loopback.
	if o.Addr.IsLoopback() || o.Addr.IsUnspecified() {
		if o.Own || s.profile.Net.Mode == NetNone {
			return d.allow("loopback", "the run's own", "builtin:loopback")
		}
		return d.deny("loopback", "only servers of the run itself answer", "builtin:loopback")
	}
	switch s.profile.Net.Mode {
	case NetGate:
		return s.decideGate(d, o, udp)
	case NetDirect:
		return s.decideDirect(d, o, udp)
	}
	return d.deny("net.mode", "no network", "net.mode", "--net direct --allow "+destination(o, udp))
}

func (s *Sealed) decideBind(d Decision, op Op, o Object) Decision {
	switch {
	case s.profile.Net.Mode == NetNone:
		return d.allow(op.String(), "in the run's own network namespace, which nothing reaches", "net.mode")
	case slices.Contains(s.profile.Net.Listen, o.Port):
		return d.allow("net.listen", "named", "net.listen")
	case o.Addr.IsValid() && o.Addr.IsLoopback(), op == OpBind && o.Port == 0:
		return d.allow(op.String(), "only the run itself reaches it", "builtin:loopback")
	}
	return d.deny("net.listen", fmt.Sprintf("port %d is not named", o.Port), byDefault, fmt.Sprintf("--listen %d", o.Port))
}

func (s *Sealed) decideGate(d Decision, o Object, udp bool) Decision {
	if s.profile.Net.Allow != nil {
		best, ok := s.match(o, udp)
		if !ok {
			return d.deny("net.allow", "not in the list", byDefault, "--allow "+destination(o, udp))
		}
		d.step("net.allow", "in the list", allowID(best))
	}
	d.step("gate", "the gate decides", "gate")
	d.Gate, d.Rule = true, "gate"
	return d
}

func (s *Sealed) decideDirect(d Decision, o Object, udp bool) Decision {
	if o.Port == dnsPort {
		return d.deny("port", "53 stays shut: names are resolved before the start", "builtin:dns")
	}
	best, ok := s.match(o, udp)
	if !o.Addr.IsValid() {
		if ok {
			return d.allow("net.allow", "the host is pinned at the start", allowID(best))
		}
		return d.deny("net.allow", "not in the list", byDefault, "--allow "+destination(o, udp))
	}
	closed, bad := Denied(o.Addr)
	switch {
	case !ok && bad:
		return d.deny("built-in denials", closed.Prefix.String(), closed.ID, "--allow "+destination(o, udp))
	case !ok:
		return d.deny("net.allow", "not in the list", byDefault, "--allow "+destination(o, udp))
	case bad && (best.Host != "" || closed.Prefix.Bits() > best.Prefix.Bits()):
		d.step("net.allow", "in the list", allowID(best))
		o.Host = ""
		return d.deny("built-in denials", closed.Prefix.String()+" is longer", closed.ID, "--allow "+destination(o, udp))
	}
	return d.allow("net.allow", "in the list", allowID(best))
}

// match finds the entry with the longest prefix, a named host last: a host never
// wins over a built-in denial.
func (s *Sealed) match(o Object, udp bool) (Entry, bool) {
	if o.Addr.IsValid() {
		for n := o.Addr.BitLen(); n >= 0; n-- {
			p, _ := o.Addr.Prefix(n)
			if found := s.entries.at(Entry{Prefix: p, Port: o.Port, UDP: udp}); found != nil {
				return found[0], true
			}
		}
		for host, addrs := range s.hosts {
			if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.WithZone("").Unmap() == o.Addr }) {
				continue
			}
			if e, ok := s.matchHost(host, o.Port, udp); ok {
				return e, true
			}
		}
		return Entry{}, false
	}
	host, err := cleanHost(o.Host)
	if err != nil {
		return Entry{}, false
	}
	return s.matchHost(host, o.Port, udp)
}

func (s *Sealed) matchHost(host string, port uint16, udp bool) (Entry, bool) {
	if found := s.entries.at(Entry{Host: host, Port: port, UDP: udp}); found != nil {
		return found[0], true
	}
	return Entry{}, false
}

func allowID(e Entry) string { return "net.allow:" + e.String() }

// destination writes o as an entry.
func destination(o Object, udp bool) string {
	e := Entry{Host: o.Host, Port: o.Port, UDP: udp && o.Port != 0}
	if o.Addr.IsValid() && o.Host == "" {
		e.Prefix = netip.PrefixFrom(o.Addr, o.Addr.BitLen())
	}
	return e.String()
}
