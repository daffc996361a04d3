package profiles

import (
	"net/netip"
	"testing"
)

func TestParseEntry(t *testing.T) {
	for _, tt := range []struct{ in, want string }{ // want "" is an error
		{"example.org", "example.org"}, {"Example.ORG.:443", "example.org:443"}, {"a_b.example:1", "a_b.example:1"}, {"localhost:8080", "localhost:8080"},
		{"example.org:443/udp", "example.org:443/udp"}, {"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"192.0.2.1", "192.0.2.1"}, {"192.0.2.1/32:80", "192.0.2.1:80"}, {"10.0.0.0/8:443", "10.0.0.0/8:443"}, {"0.0.0.0/0", "0.0.0.0/0"}, {"8.8.8.8:53/udp", "8.8.8.8:53/udp"},
		{"[2001:db8::]/32:443", "[2001:db8::]/32:443"}, {"[2001:DB8::1]:65535", "[2001:db8::1]:65535"}, {"[::]/0", "[::]/0"}, {"[::1]", "[::1]"}, {"[2001:db8::1]/128:1", "[2001:db8::1]:1"},
		// A mapped address is its IPv4 address.
		{"[::ffff:10.1.2.3]:80", "10.1.2.3:80"}, {"[::ffff:10.0.0.0]/104", "10.0.0.0/8"}, {"[::ffff:0:0]/96", "0.0.0.0/0"}, {"[::]/95", "[::]/95"}, {"[::ffff:0:0]/95", ""},
		{"", ""}, {":443", ""}, {"example.org:", ""}, {"example.org:0", ""}, {"example.org:65536", ""}, {"example.org:+1", ""}, {"example.org:01", ""}, {"example.org:443/tcp", ""}, {"example.org/udp", ""}, {"10.0.0.0/8/udp", ""},
		{"2001:db8::1", ""}, {"2001:db8::/32:443", ""}, {"[2001:db8::1", ""}, {"[2001:db8::1]x", ""}, {"[10.0.0.1]", ""}, {"[fe80::1%eth0]", ""}, {"[]", ""}, {"[::1]/129", ""}, {"[::1]/32:1", ""},
		{"10.0.0.1/8", ""}, {"10.0.0.0/33", ""}, {"10.0.0.0/-1", ""}, {"10.0.0.0/08", ""},
		// What resolvers read as addresses.
		{"127.1", ""}, {"2130706433", ""}, {"0x7f.1", ""}, {"0x7f000001", ""}, {"0177.0.0.1", ""}, {"1.2.3.4.", ""}, {"a.1", ""}, {"010.0.0.1", ""},
		{"a b", ""}, {"-a.example", ""}, {"a-.example", ""}, {"a..b", ""}, {".", ""}, {"*.example.org", ""}, {"http://example.org", ""}, {"user@example.org", ""}, {"bücher.example", ""}, {"a\x00b", ""}, {"ex\u212Aample.org", ""},
	} {
		e, err := ParseEntry(tt.in)
		if (err == nil) != (tt.want != "") || err == nil && e.String() != tt.want {
			t.Errorf("ParseEntry(%q) = %q, %v", tt.in, e, err)
		}
		if err != nil && e != (Entry{}) {
			t.Errorf("ParseEntry(%q) returns %+v beside its error", tt.in, e)
		}
	}
}

func entries(t *testing.T, in ...string) []Entry {
	out := []Entry{}
	for _, s := range in {
		e, err := ParseEntry(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func TestMeetEntries(t *testing.T) {
	for _, tt := range []struct {
		name       string
		a, b, want []string
	}{
		{"prefix in prefix", []string{"8.0.0.0/8"}, []string{"8.8.0.0/16:443"}, []string{"8.8.0.0/16:443"}},
		{"ports cross", []string{"8.0.0.0/8:443"}, []string{"8.8.0.0/16"}, []string{"8.8.0.0/16:443"}},
		{"other port", []string{"8.0.0.0/8:443"}, []string{"8.8.0.0/16:444"}, nil},
		{"neighbour", []string{"8.8.8.0/24"}, []string{"8.8.9.0/24"}, nil},
		{"udp is not tcp", []string{"8.8.8.8:53"}, []string{"8.8.8.8:53/udp"}, nil},
		{"hosts", []string{"a.example", "b.example:1"}, []string{"a.example:443", "b.example:2"}, []string{"a.example:443"}},
		{"host and prefix", []string{"a.example"}, []string{"0.0.0.0/0"}, nil},
		{"a default route does not open private ranges", []string{"0.0.0.0/0"}, []string{"10.1.2.0/24"}, nil},
		{"nor the edge of them", []string{"8.0.0.0/6"}, []string{"10.0.0.0/8"}, nil},
		{"a private range does", []string{"10.0.0.0/8"}, []string{"10.1.2.0/24"}, []string{"10.1.2.0/24"}},
		{"but not the metadata address in it", []string{"169.254.0.0/16"}, []string{"169.254.169.254"}, nil},
		{"IPv6 is not IPv4", []string{"[::]/0"}, []string{"8.8.8.8"}, nil},
		{"doubled", []string{"8.0.0.0/8", "8.8.0.0/16"}, []string{"8.8.8.8"}, []string{"8.8.8.8"}},
	} {
		want := maximal(entries(t, tt.want...))
		for _, got := range [][]Entry{meetEntries(entries(t, tt.a...), entries(t, tt.b...)), meetEntries(entries(t, tt.b...), entries(t, tt.a...))} {
			if len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
				t.Errorf("%s: %v, want %v", tt.name, got, want)
			}
		}
	}
}

func TestDenied(t *testing.T) {
	for addr, want := range map[string]string{
		"9.255.255.255": "", "10.0.0.0": "builtin:private", "10.255.255.255": "builtin:private", "11.0.0.0": "",
		"100.63.255.255": "", "100.64.0.0": "builtin:shared", "100.127.255.255": "builtin:shared", "100.128.0.0": "",
		"169.254.169.253": "builtin:link-local", "169.254.169.254": "builtin:metadata", "::ffff:169.254.169.254": "builtin:metadata", "169.255.0.0": "",
		"172.15.255.255": "", "172.16.0.0": "builtin:private", "172.31.255.255": "builtin:private", "172.32.0.0": "",
		"0.0.0.0": "builtin:this-network", "1.0.0.0": "", "223.255.255.255": "", "224.0.0.251": "builtin:multicast", "255.255.255.255": "builtin:broadcast",
		"::": "builtin:unspecified", "::1": "builtin:loopback", "::a9fe:a9fe": "builtin:v4-compatible", "64:ff9b::a9fe:a9fe": "builtin:nat64", "64:ff9b:1::1": "builtin:nat64",
		"2002:a9fe:a9fe::1": "builtin:6to4", "2001::1": "builtin:teredo", "2001:1::1": "", "2000::1": "", "fbff::1": "", "fc00::1": "builtin:private", "fd00:ec2::254": "builtin:metadata",
		"fe00::1": "", "fe80::1%eth0": "builtin:link-local", "ff02::fb": "builtin:multicast",
	} {
		d, bad := Denied(netip.MustParseAddr(addr))
		if d.ID != want || bad != (want != "") {
			t.Errorf("Denied(%s) = %v, %v; want %q", addr, d, bad, want)
		}
	}
}

// TestManyPorts: entries that differ only in their port are no reason to wait.
func TestManyPorts(t *testing.T) {
	var list []Entry
	for port := 1; port <= 20000; port++ {
		list = append(list, Entry{Host: "a.example", Port: uint16(port)}, Entry{Prefix: netip.MustParsePrefix("8.8.8.8/32"), Port: uint16(port)})
	}
	if got := meetEntries(list, list); len(got) != len(list) {
		t.Errorf("%d entries, want %d", len(got), len(list))
	}
}
