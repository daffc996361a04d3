package egress

import (
	"net/netip"
	"os"
	"testing"
)

// BenchmarkEntry is what one run costs: nine rules and an entry, and their removal.
func BenchmarkEntry(b *testing.B) {
	p := Policy{UnixAny: true}
	for i := range 9 {
		p.Rules = append(p.Rules, Rule{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{9, 9, 9, byte(i)}), 32), Port: 443, Proto: TCP})
	}
	for b.Loop() {
		if err := host.set.Add(1<<60, p); err != nil {
			b.Fatal(err)
		}
		if err := host.set.Remove(1 << 60); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWatch includes the grace periods of giving and taking a ring.
func BenchmarkWatch(b *testing.B) {
	for b.Loop() {
		if err := host.set.Add(1<<60, Policy{UnixAny: true}); err != nil {
			b.Fatal(err)
		}
		ring, err := host.set.Watch(1<<60, os.Getpagesize())
		if err != nil {
			b.Fatal(err)
		}
		if err := host.set.Remove(1 << 60); err != nil {
			b.Fatal(err)
		}
		ring.Close()
	}
}

// BenchmarkOpen opens the pinned set, as each command does.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		s, err := Open(host.parent, host.dir)
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
