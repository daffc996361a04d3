package egress

import (
	"lockbox/profiles"

	bpf "lockbox/bpf/egress"
)

// The words of the programs, so that callers need one import.
type (
	// Policy is what one run may do; the zero Policy only lets it talk to itself over loopback.
	Policy = bpf.Entry
	// Rule opens one destination; the zero Rule is refused.
	Rule    = bpf.Rule
	Counter = bpf.Counter
	Event   = bpf.Event
	Events  = bpf.Events
	Hook    = bpf.Hook
	Reason  = bpf.Reason
)

// IP protocol numbers of rules.
const (
	TCP = bpf.TCP
	UDP = bpf.UDP
)

// ErrNoUnix matches the error of Add for a Policy without UnixAny where the kernel is older than 6.7.
var ErrNoUnix = bpf.ErrNoUnix

// builtin is the profiles' table in the programs' form: the class is the row's number plus one. The programs judge IPv4-mapped
// addresses as IPv4, so that row has nothing to do there.
func builtin() []bpf.Denial {
	var out []bpf.Denial
	for i, d := range profiles.Denials() {
		if !d.Prefix.Addr().Is4In6() {
			out = append(out, bpf.Denial{Prefix: d.Prefix, Class: bpf.Class(i + 1)})
		}
	}
	return out
}

// DenialID is the id of the built-in denial that an event names, or "".
func DenialID(e Event) string {
	if e.Class == bpf.ClassHost {
		return "builtin:this-host"
	}
	if rows := profiles.Denials(); e.Class > 0 && int(e.Class) <= len(rows) {
		return rows[e.Class-1].ID
	}
	return ""
}
