package engine

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/runner/egress"
)

// policy turns the profile's rules into an entry of the egress programs.
func policy(want *runner.Egress, set *egress.Set) egress.Policy {
	p := egress.Policy{Listen: want.Listen, Unix: want.Unix}
	for _, r := range want.Rules {
		proto := uint8(unix.IPPROTO_TCP)
		if r.UDP {
			proto = unix.IPPROTO_UDP
		}
		p.Rules = append(p.Rules, egress.Rule{Prefix: r.Prefix, Port: r.Port, Proto: proto, Pinned: r.Pinned})
	}
	if want.OwnNamespace {
		p.OwnNet, p.UnixAny = true, true
		return p
	}
	// Path sockets are closed by the run's tree. Where the kernel lets the
	// programs see paths they are closed a second time, but for the places where
	// the run makes sockets of its own.
	if set.Unix() != nil {
		p.UnixAny, p.Unix = true, nil
		return p
	}
	for _, dir := range append([]string{"/tmp", "/var/tmp", "/dev/shm"}, want.Writable...) {
		p.Unix = append(p.Unix, strings.TrimSuffix(dir, "/")+"/")
	}
	return p
}

// Resolve looks the host names of an allow list up, once, with the host's own
// resolver. A name that cannot be resolved is an error: the rule would be
// silently empty.
func (e *Engine) Resolve(s *profiles.Sealed) (map[string][]netip.Addr, error) {
	out := map[string][]netip.Addr{}
	for _, entry := range s.Profile().Net.Allow {
		if entry.Host == "" || out[entry.Host] != nil {
			continue
		}
		ips, err := net.LookupIP(entry.Host)
		if err != nil {
			return nil, fmt.Errorf("allow %q: %w", entry.Host, err)
		}
		for _, ip := range ips {
			if a, ok := netip.AddrFromSlice(ip); ok {
				out[entry.Host] = append(out[entry.Host], a.Unmap())
			}
		}
	}
	return out, nil
}
