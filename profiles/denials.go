package profiles

import (
	"net/netip"
	"sync"
)

// Denial is a range that an allow list opens only by naming a prefix at least
// as long.
type Denial struct {
	Prefix netip.Prefix
	ID     string
}

// denials is the table of ranges that are not the public internet, and of the
// forms in which one address hides in another (RFC 6890, 6052, 3056, 4380).
// The last row keeps ::/0 from meaning IPv4 where both share one table. It is made
// when it is first asked: most runs have no network.
var denials = sync.OnceValue(func() []Denial {
	return []Denial{
		{netip.MustParsePrefix("0.0.0.0/8"), "builtin:this-network"},
		{netip.MustParsePrefix("10.0.0.0/8"), "builtin:private"},
		{netip.MustParsePrefix("100.64.0.0/10"), "builtin:shared"},
		{netip.MustParsePrefix("127.0.0.0/8"), "builtin:loopback"},
		{netip.MustParsePrefix("169.254.0.0/16"), "builtin:link-local"},
		{netip.MustParsePrefix("169.254.169.254/32"), "builtin:metadata"},
		{netip.MustParsePrefix("172.16.0.0/12"), "builtin:private"},
		{netip.MustParsePrefix("192.0.0.0/24"), "builtin:reserved"},
		{netip.MustParsePrefix("192.0.2.0/24"), "builtin:documentation"},
		{netip.MustParsePrefix("192.88.99.0/24"), "builtin:6to4"},
		{netip.MustParsePrefix("192.168.0.0/16"), "builtin:private"},
		{netip.MustParsePrefix("198.18.0.0/15"), "builtin:benchmark"},
		{netip.MustParsePrefix("198.51.100.0/24"), "builtin:documentation"},
		{netip.MustParsePrefix("203.0.113.0/24"), "builtin:documentation"},
		{netip.MustParsePrefix("224.0.0.0/4"), "builtin:multicast"},
		{netip.MustParsePrefix("240.0.0.0/4"), "builtin:reserved"},
		{netip.MustParsePrefix("255.255.255.255/32"), "builtin:broadcast"},
		{netip.MustParsePrefix("::/96"), "builtin:v4-compatible"},
		{netip.MustParsePrefix("::/128"), "builtin:unspecified"},
		{netip.MustParsePrefix("::1/128"), "builtin:loopback"},
		{netip.MustParsePrefix("64:ff9b::/96"), "builtin:nat64"},
		{netip.MustParsePrefix("64:ff9b:1::/48"), "builtin:nat64"},
		{netip.MustParsePrefix("100::/64"), "builtin:discard"},
		{netip.MustParsePrefix("2001::/32"), "builtin:teredo"},
		{netip.MustParsePrefix("2001:db8::/32"), "builtin:documentation"},
		{netip.MustParsePrefix("2002::/16"), "builtin:6to4"},
		{netip.MustParsePrefix("fc00::/7"), "builtin:private"},
		{netip.MustParsePrefix("fd00:ec2::254/128"), "builtin:metadata"},
		{netip.MustParsePrefix("fe80::/10"), "builtin:link-local"},
		{netip.MustParsePrefix("fec0::/10"), "builtin:site-local"},
		{netip.MustParsePrefix("ff00::/8"), "builtin:multicast"},
		{netip.PrefixFrom(netip.MustParseAddr("::ffff:0:0"), 96), "builtin:v4-mapped"},
	}
})

// Denials is a copy of the built-in table.
func Denials() []Denial { return append([]Denial(nil), denials()...) }

// Denied is the longest built-in denial that holds addr; IPv4 in its mapped
// form counts as IPv4.
func Denied(addr netip.Addr) (Denial, bool) {
	var best Denial
	addr = addr.WithZone("").Unmap()
	for _, d := range denials() {
		if d.Prefix.Contains(addr) && (!best.Prefix.IsValid() || d.Prefix.Bits() > best.Prefix.Bits()) {
			best = d
		}
	}
	return best, best.Prefix.IsValid()
}
