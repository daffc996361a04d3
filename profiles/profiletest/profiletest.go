// Package profiletest makes random profiles and random questions about them,
// for tests that hold two answers against each other: Decide against a model,
// or Decide against the kernel.
//
//	r := rand.New(rand.NewPCG(seed, 0))
//	p := profiletest.Random(r, []string{root})
//	op, object := profiletest.Case(r, []string{root})
//
// # What it does not restrict
//
// Nothing: it only makes values.
package profiletest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"lockbox/profiles"
)

// names are the entries of every directory: two directories and two files.
var names = []string{"a", "b", "f", "g"}

// depth is how many levels lie below a root.
const depth = 3

// Tree lists the directories and files that random paths name, parents first,
// so that a test can create them. The roots themselves are not in it.
func Tree(roots []string) (dirs, files []string) {
	level := roots
	for range depth {
		var next []string
		for _, dir := range level {
			next = append(next, dir+"/a", dir+"/b")
			files = append(files, dir+"/f", dir+"/g")
		}
		dirs = append(dirs, next...)
		level = next
	}
	return dirs, files
}

// Path is a random path of the tree, or a root.
func Path(r *rand.Rand, roots []string) string {
	p := roots[r.IntN(len(roots))]
	for range r.IntN(depth + 1) {
		n := r.IntN(len(names))
		p += "/" + names[n]
		if n >= 2 {
			break
		}
	}
	return p
}

var accesses = []profiles.Access{
	profiles.Read, profiles.Read | profiles.Write, profiles.Read | profiles.Exec,
	profiles.Read | profiles.Write | profiles.Exec, profiles.Write,
}

// Random is a profile whose file rules lie at and below roots.
func Random(r *rand.Rand, roots []string) *profiles.Profile {
	p := &profiles.Profile{Name: string(rune('a' + r.IntN(4)))}
	for i := range r.IntN(6) {
		p.Grants = append(p.Grants, profiles.Grant{
			Path: Path(r, roots), Access: accesses[r.IntN(len(accesses))], Optional: r.IntN(4) == 0, ID: fmt.Sprintf("test:grant[%d]", i),
		})
	}
	for i := range r.IntN(4) {
		cap := profiles.None
		if r.IntN(2) == 0 {
			cap = accesses[r.IntN(len(accesses))]
		}
		p.Carves = append(p.Carves, profiles.Carve{Path: Path(r, roots), Cap: cap, Optional: r.IntN(4) == 0, ID: fmt.Sprintf("test:carve[%d]", i)})
	}
	p.Net = randomNet(r)
	p.Limits = profiles.Limits{Memory: int64(r.IntN(3)) << 20, Pids: int64(r.IntN(3)), CPU: float64(r.IntN(3)) / 2}
	p.Env.Pass = some(r, "PATH", "HOME", "LANG")
	for _, n := range some(r, "CI", "X") {
		if p.Env.Set == nil {
			p.Env.Set = map[string]string{}
		}
		p.Env.Set[n] = string(rune('0' + r.IntN(2)))
	}
	p.Process.TTY = r.IntN(2) == 0
	switch r.IntN(3) {
	case 0:
		p.Process.Syscalls = profiles.Syscalls{Mode: "strict"}
	case 1:
		p.Process.Syscalls = profiles.Syscalls{Mode: "default", Additions: some(r, profiles.SyscallAdditions...)}
	}
	// Joining with nothing brings it into the form that Load gives.
	return profiles.Join(&profiles.Profile{}, p)
}

func some(r *rand.Rand, from ...string) []string {
	var out []string
	for _, s := range from {
		if r.IntN(2) == 0 {
			out = append(out, s)
		}
	}
	return out
}

var destinations = []string{
	"0.0.0.0/0", "0.0.0.0/0:443", "10.0.0.0/8", "10.1.0.0/16:443", "10.1.2.3:80", "192.0.2.0/24", "198.51.100.7:443",
	"8.8.8.0/24:443/udp", "8.8.8.8", "169.254.169.254:80", "[::]/0", "[2001:db8::]/32:443", "[2a00::]/16:443",
	"example.org", "example.org:443", "git.example.org:22",
}

func randomNet(r *rand.Rand) profiles.Net {
	n := profiles.Net{Mode: profiles.Mode(r.IntN(3)), Unix: some(r, "/run/a.sock", "/run/b.sock")}
	if r.IntN(3) > 0 {
		n.Allow = []profiles.Entry{}
		for range r.IntN(5) {
			e, err := profiles.ParseEntry(destinations[r.IntN(len(destinations))])
			if err != nil {
				panic("BUG: " + err.Error())
			}
			n.Allow = append(n.Allow, e)
		}
	}
	for _, p := range []uint16{80, 3000} {
		if r.IntN(2) == 0 {
			n.Listen = append(n.Listen, p)
		}
	}
	return n
}

// fileOps are the operations on paths.
var fileOps = []profiles.Op{
	profiles.OpRead, profiles.OpWrite, profiles.OpExec, profiles.OpCreate, profiles.OpRemove,
	profiles.OpRename, profiles.OpLink, profiles.OpMetadata, profiles.OpStat,
}

// Case is a random question about a path of the tree.
func Case(r *rand.Rand, roots []string) (profiles.Op, profiles.Object) {
	o := profiles.Object{Path: Path(r, roots)}
	op := fileOps[r.IntN(len(fileOps))]
	if op == profiles.OpRename || op == profiles.OpLink {
		o.To = Path(r, roots)
	}
	return op, o
}

var addresses = []string{
	"8.8.8.8", "8.8.8.9", "8.8.9.1", "10.0.0.1", "10.1.2.3", "10.1.2.4", "11.0.0.0", "9.255.255.255", "192.0.2.1", "198.51.100.7",
	"169.254.169.254", "172.15.255.255", "172.16.0.1", "172.32.0.0", "100.63.255.255", "100.64.0.1", "::ffff:169.254.169.254",
	"64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::a9fe:a9fe", "2001:db8::1", "2a00::1", "2a01::1", "fe80::1", "fc00::1", "224.0.0.251", "0.0.0.0", "255.255.255.255",
}

// NetCase is a random question about a destination that is not loopback.
func NetCase(r *rand.Rand) (profiles.Op, profiles.Object) {
	o := profiles.Object{
		Addr:  netip.MustParseAddr(addresses[r.IntN(len(addresses))]),
		Port:  []uint16{22, 53, 80, 443, 444}[r.IntN(5)],
		Proto: []string{"tcp", "udp"}[r.IntN(2)],
	}
	if o.Proto == "udp" {
		return profiles.OpSend, o
	}
	return profiles.OpConnect, o
}
