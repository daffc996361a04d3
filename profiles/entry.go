package profiles

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Mode is how a run reaches the network. The zero value is none.
type Mode uint8

const (
	// NetNone: nothing but the run's own loopback.
	NetNone Mode = iota
	// NetGate: only through the gate, which decides on requests.
	NetGate
	// NetDirect: straight to the allowed addresses.
	NetDirect
)

var modeNames = [...]string{"none", "gate", "direct"}

// ParseMode reads none, gate or direct.
func ParseMode(s string) (Mode, error) {
	i := slices.Index(modeNames[:], s)
	if i < 0 {
		return NetNone, fmt.Errorf("bad mode %q; want none, gate or direct", shorten(s))
	}
	return Mode(i), nil
}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return modeNames[NetNone]
}

// Entry is one destination of an allow list: a host or a prefix.
type Entry struct {
	Host   string       // lower case, no final dot; empty for a prefix
	Prefix netip.Prefix // masked; IPv4 never in its IPv6-mapped form
	Port   uint16       // zero means any port, and then only TCP
	UDP    bool
}

// ParseEntry reads HOST[:PORT[/udp]], IP[:PORT[/udp]] or CIDR[:PORT[/udp]]; IPv6
// stands in brackets: [2001:db8::]/32:443.
func ParseEntry(s string) (Entry, error) {
	e, err := parseEntry(s)
	if err != nil {
		return Entry{}, fmt.Errorf("bad destination %q: %w", shorten(s), err)
	}
	return e, nil
}

func parseEntry(s string) (Entry, error) {
	var e Entry
	target, port := s, ""
	if end := strings.IndexByte(s, ']'); strings.HasPrefix(s, "[") && end > 0 {
		rest := s[end+1:]
		if i := strings.IndexByte(rest, ':'); i >= 0 {
			rest, port = rest[:i], rest[i:]
		}
		if rest != "" && rest[0] != '/' {
			return e, fmt.Errorf("unexpected %q after the bracket", rest)
		}
		target = s[1:end] + rest
		if !strings.Contains(s[1:end], ":") {
			return e, fmt.Errorf("only IPv6 stands in brackets")
		}
	} else {
		if strings.Count(s, ":") > 1 {
			return e, fmt.Errorf("IPv6 stands in brackets, as [2001:db8::1]:443")
		}
		if i := strings.IndexByte(s, ':'); i >= 0 {
			target, port = s[:i], s[i:]
		}
	}
	if err := e.parsePort(port); err != nil {
		return Entry{}, err
	}
	return e, e.parseTarget(target)
}

// parsePort reads what stands from the colon on.
func (e *Entry) parsePort(s string) error {
	if s == "" {
		return nil
	}
	num, udp := strings.CutSuffix(s[1:], "/udp")
	n, err := parseCount(num)
	if err != nil || n > 65535 {
		return fmt.Errorf("bad port %q; want 1 to 65535", s[1:])
	}
	e.Port, e.UDP = uint16(n), udp
	return nil
}

func (e *Entry) parseTarget(s string) error {
	if addr, err := netip.ParseAddr(s); err == nil {
		if addr.Zone() != "" {
			return fmt.Errorf("a zone is not allowed")
		}
		addr = addr.Unmap()
		e.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return nil
	}
	if strings.Contains(s, "/") {
		return e.parsePrefix(s)
	}
	host, err := cleanHost(s)
	e.Host = host
	return err
}

func (e *Entry) parsePrefix(s string) error {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf("not a CIDR")
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return fmt.Errorf("a mapped prefix shorter than 96 bits")
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p != p.Masked() {
		return fmt.Errorf("bits beyond the prefix are set; did you mean %s", Entry{Prefix: p.Masked()})
	}
	e.Prefix = p
	return nil
}

// cleanHost lower-cases a host name and drops a final dot. Names whose last
// label is a number are refused: resolvers read them as addresses (127.1,
// 0x7f.1, 2130706433).
func cleanHost(s string) (string, error) {
	h := strings.ToLower(strings.TrimSuffix(s, "."))
	// A Kelvin sign lower-cases to k: only ASCII counts.
	if h == "" || len(h) > 253 || strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) >= 0 {
		return "", fmt.Errorf("not a host name, an address or a CIDR")
	}
	labels := strings.Split(h, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || !ldh(l) {
			return "", fmt.Errorf("not a host name, an address or a CIDR")
		}
	}
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' {
		return "", fmt.Errorf("a host name whose last part starts with a digit could be read as an address; write the address in full")
	}
	return h, nil
}

func ldh(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// String is the form that ParseEntry reads.
func (e Entry) String() string {
	s := e.Host
	if e.Prefix.IsValid() {
		s = e.Prefix.Addr().String()
		if e.Prefix.Addr().Is6() {
			s = "[" + s + "]"
		}
		if !e.Prefix.IsSingleIP() {
			s += "/" + strconv.Itoa(e.Prefix.Bits())
		}
	}
	if e.Port != 0 {
		s += ":" + strconv.Itoa(int(e.Port))
	}
	if e.UDP {
		s += "/udp"
	}
	return s
}

func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), a.Prefix.Compare(b.Prefix), cmp.Compare(a.Port, b.Port), cmp.Compare(bit01(a.UDP), bit01(b.UDP)))
}

func bit01(b bool) int {
	if b {
		return 1
	}
	return 0
}
