package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// Sizes of egress.bpf.c, run.h and unix.bpf.c.
const (
	ruleKeySize   = 4 + 8 + 2 + 1 + 1 + 16
	denialKeySize = 4 + 4 + 16
	pathMax       = 108
	pathKeySize   = 4 + 8 + pathMax
	runSize       = 4 + 4 + 2*MaxListen
)

const (
	flagOwnNet = 1 << iota
	flagUnixAny
)

const (
	pathExact = 1
	pathBelow = 2
)

// split gives the prefix in the programs' form: IPv4 as ::ffff:a.b.c.d with family 4, whichever way it was written.
func split(p netip.Prefix) (family uint8, addr [16]byte, bits int, err error) {
	if !p.IsValid() || p.Addr().Zone() != "" {
		return 0, addr, 0, fmt.Errorf("not a prefix without a zone: %v", p)
	}
	p = p.Masked()
	a, bits := p.Addr(), p.Bits()
	switch {
	case a.Is4():
		return 4, a.As16(), bits + 96, nil
	case a.Is4In6() && bits >= 96:
		return 4, a.As16(), bits, nil
	}
	// A shorter IPv6 prefix may contain ::ffff:0:0/96, yet it is a rule about IPv6.
	return 6, a.As16(), bits, nil
}

func ruleKey(id uint64, r Rule) (key [ruleKeySize]byte, bits int, err error) {
	if r.Proto != TCP && r.Proto != UDP {
		return key, 0, fmt.Errorf("rule for %v: protocol %d is neither TCP (6) nor UDP (17)", r.Prefix, r.Proto)
	}
	family, addr, bits, err := split(r.Prefix)
	if err != nil {
		return key, 0, err
	}
	if r.Pinned && bits != 128 {
		return key, 0, fmt.Errorf("rule for %v: a name is pinned to addresses, not to a prefix", r.Prefix)
	}
	binary.LittleEndian.PutUint32(key[0:], uint32(96+bits))
	binary.LittleEndian.PutUint64(key[4:], id)
	binary.BigEndian.PutUint16(key[12:], r.Port)
	key[14], key[15] = r.Proto, family
	copy(key[16:], addr[:])
	return key, bits, nil
}

func ruleKeyRun(key []byte) uint64 { return binary.LittleEndian.Uint64(key[4:]) }

func denialKey(p netip.Prefix) (key [denialKeySize]byte, bits int, err error) {
	family, addr, bits, err := split(p)
	if err != nil {
		return key, 0, err
	}
	binary.LittleEndian.PutUint32(key[0:], uint32(32+bits))
	key[4] = family
	copy(key[8:], addr[:])
	return key, bits, nil
}

func pathKey(id uint64, path string) (key [pathKeySize]byte, kind uint32, err error) {
	if !strings.HasPrefix(path, "/") || strings.ContainsRune(path, 0) || len(path) >= pathMax {
		return key, 0, fmt.Errorf("unix socket %q: want an absolute path of less than %d bytes", path, pathMax)
	}
	for c := range strings.SplitSeq(strings.TrimSuffix(path[1:], "/"), "/") {
		if (c == "" && path != "/") || c == "." || c == ".." {
			return key, 0, fmt.Errorf("unix socket %q: not a clean path", path)
		}
	}
	n := len(path)
	kind = pathBelow
	if !strings.HasSuffix(path, "/") {
		n, kind = n+1, pathExact // with its NUL
	}
	binary.LittleEndian.PutUint32(key[0:], uint32(64+8*n))
	binary.LittleEndian.PutUint64(key[4:], id)
	copy(key[12:], path)
	return key, kind, nil
}

func runValue(e Entry) (v [runSize]byte, err error) {
	if len(e.Listen) > MaxListen {
		return v, fmt.Errorf("%d ports to listen on: at most %d", len(e.Listen), MaxListen)
	}
	var flags uint32
	if e.OwnNet {
		flags |= flagOwnNet
	}
	if e.UnixAny {
		flags |= flagUnixAny
	}
	binary.LittleEndian.PutUint32(v[0:], flags)
	binary.LittleEndian.PutUint32(v[4:], uint32(len(e.Listen)))
	for i, port := range e.Listen {
		if port == 0 {
			return v, fmt.Errorf("listen port 0")
		}
		binary.BigEndian.PutUint16(v[8+2*i:], port)
	}
	return v, nil
}
