package egress

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
)

// unsplit reads a rule's prefix back out of its key.
func unsplit(key []byte, fixed int) netip.Prefix {
	bits := int(binary.LittleEndian.Uint32(key)) - fixed
	addr := netip.AddrFrom16([16]byte(key[len(key)-16:]))
	if key[15] == 4 {
		return netip.PrefixFrom(addr.Unmap(), bits-96)
	}
	return netip.PrefixFrom(addr, bits)
}

// FuzzRuleKey: CIDR → LPM key → CIDR is the masked prefix, IPv4 whichever way it was written.
func FuzzRuleKey(f *testing.F) {
	for _, s := range []string{"0.0.0.0/0", "10.1.2.3/8", "255.255.255.255/32", "::/0", "::1/128", "64:ff9b::/96", "2001:db8::7/33"} {
		p := netip.MustParsePrefix(s)
		f.Add(p.Addr().AsSlice(), p.Bits(), uint16(443), uint8(TCP))
	}
	mapped := netip.MustParseAddr("::ffff:1.2.3.4")
	f.Add(mapped.AsSlice(), 128, uint16(0), uint8(UDP))
	f.Add(mapped.AsSlice(), 96, uint16(0), uint8(UDP))
	f.Add(mapped.AsSlice(), 95, uint16(0), uint8(UDP))
	f.Add([]byte{1, 2, 3, 4}, 33, uint16(0), uint8(TCP))
	f.Fuzz(func(t *testing.T, addr []byte, bits int, port uint16, proto uint8) {
		a, ok := netip.AddrFromSlice(addr)
		if !ok {
			return
		}
		p := netip.PrefixFrom(a, bits)
		key, n, err := ruleKey(7, Rule{Prefix: p, Port: port, Proto: proto})
		if valid := p.IsValid() && (proto == TCP || proto == UDP); valid != (err == nil) {
			t.Fatalf("%v proto %d: %v", p, proto, err)
		}
		if err != nil {
			return
		}
		want := p.Masked()
		if a.Is4In6() && bits >= 96 {
			want = netip.PrefixFrom(a.Unmap(), bits-96).Masked()
		}
		if got := unsplit(key[:], 96); got != want {
			t.Errorf("%v became %v", want, got)
		}
		if n < 0 || n > 128 || int(binary.LittleEndian.Uint32(key[:])) != 96+n {
			t.Errorf("%v: %d bits", p, n)
		}
		if ruleKeyRun(key[:]) != 7 || binary.BigEndian.Uint16(key[12:]) != port || key[14] != proto {
			t.Errorf("%v: key %x", p, key)
		}
	})
}

// FuzzDecode: a record of the ring is an event or an error.
func FuzzDecode(f *testing.F) {
	f.Add(make([]byte, eventSize))
	f.Add(make([]byte, unixEventSize))
	f.Add([]byte(strings.Repeat("\xff", unixEventSize)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(b)
		if (err == nil) != (len(b) == eventSize || len(b) == unixEventSize) {
			t.Fatalf("%d bytes: %+v, %v", len(b), e, err)
		}
		_, _ = e.Hook.String(), e.Reason.String()
	})
}

func TestPathKey(t *testing.T) {
	long := "/" + strings.Repeat("a", 106)
	for _, l := range []struct {
		path string
		bits uint32 // 0: refused
		kind uint32
	}{
		{"/run/x", 64 + 8*7, pathExact}, // with the NUL
		{"/tmp/", 64 + 8*5, pathBelow},
		{"/", 64 + 8, pathBelow},
		{long, 64 + 8*108, pathExact},
		{long + "a", 0, 0},
		{"", 0, 0},
		{"x", 0, 0},
		{"@abstract", 0, 0},
		{"/a/../b", 0, 0},
		{"/a/.", 0, 0},
		{"/a/./b", 0, 0},
		{"//a", 0, 0},
		{"/a//", 0, 0},
		{"/a\x00", 0, 0},
	} {
		key, kind, err := pathKey(1, l.path)
		if (err != nil) != (l.bits == 0) || kind != l.kind && err == nil {
			t.Errorf("%q: kind %d, %v", l.path, kind, err)
		}
		if err == nil && binary.LittleEndian.Uint32(key[:]) != l.bits {
			t.Errorf("%q: %d bits, want %d", l.path, binary.LittleEndian.Uint32(key[:]), l.bits)
		}
	}
}

// TestNames: the Go lists and run.h count alike, and an unknown number has a name too.
func TestNames(t *testing.T) {
	if len(hookNames) != int(hooks) || HookSendmsgUnix.String() != "sendmsg_unix" || ReasonUnix.String() != "unix path" {
		t.Errorf("names: %v %v", HookSendmsgUnix, ReasonUnix)
	}
	if got := Hook(200).String(); got != "#200" {
		t.Errorf("got %q", got)
	}
}

// TestLayout: the sizes that Go writes are those of the objects.
func TestLayout(t *testing.T) {
	main, err := loadMain()
	if err != nil {
		t.Fatal(err)
	}
	sock, err := loadSock()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []struct {
		name       string
		key, value uint32
		k, v       int
	}{
		{"runs", main.Maps["runs"].KeySize, main.Maps["runs"].ValueSize, 8, runSize},
		{"counts", main.Maps["counts"].KeySize, main.Maps["counts"].ValueSize, 8, binary.Size(counters{})},
		{"rules", main.Maps["rules"].KeySize, main.Maps["rules"].ValueSize, ruleKeySize, 4},
		{"denials", main.Maps["denials"].KeySize, main.Maps["denials"].ValueSize, denialKeySize, 8},
		{"paths", sock.Maps["paths"].KeySize, sock.Maps["paths"].ValueSize, pathKeySize, 4},
	} {
		if int(l.key) != l.k || int(l.value) != l.v {
			t.Errorf("%s: key %d, value %d; Go has %d, %d", l.name, l.key, l.value, l.k, l.v)
		}
	}
	if n := main.Maps["runs"].MaxEntries; n != MaxRuns {
		t.Errorf("MaxRuns %d, map %d", MaxRuns, n)
	}
	if main.Maps["rules"].MaxEntries != MaxRules || sock.Maps["paths"].MaxEntries != MaxPaths || main.Maps["counts"].MaxEntries != MaxRuns+1 {
		t.Error("the limits in Go and in C differ")
	}
}
