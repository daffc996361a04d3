package profiles

import (
	"slices"
	"strings"
	"time"
)

// Profile is a policy as a value: everything expanded, nothing inherited. The
// zero value opens nothing. Grants and Carves may name one path each only once;
// Load, Join, Meet and WithFlags keep that.
type Profile struct {
	Name    string
	Grants  []Grant
	Carves  []Carve
	Net     Net
	Limits  Limits
	Env     Env
	Process Process
}

// Net is what a profile says about sockets.
type Net struct {
	Mode Mode
	// Allow: in gate mode nil is "not narrowed" and an empty list is nothing; in
	// direct mode both are nothing; in mode none it is always nil.
	Allow  []Entry
	Listen []uint16
	// Unix are the exact paths of sockets that may be connected to.
	Unix []string
}

// Limits end a run that grows beyond them. Zero means unset.
type Limits struct {
	Memory   int64 // bytes
	Pids     int64
	CPU      float64 // cores
	Wall     time.Duration
	Output   int64 // bytes of stdout and stderr together
	Files    int64 // open files of one process
	FileSize int64 // bytes
}

// Env is the environment of the run: nothing else is passed.
type Env struct {
	Pass   []string          // names, sorted
	Set    map[string]string // wins over Pass
	Secret map[string]string // name → vault:NAME, env:NAME or file:PATH; wins over Set
}

// Process says how far the run's processes may talk to the kernel.
type Process struct {
	Syscalls Syscalls
	TTY      bool
}

// Syscalls is a filter and what it additionally lets through.
type Syscalls struct {
	// Mode is "default", "strict", or "" where nothing was said, which is
	// enforced as default.
	Mode      string
	Additions []string // sorted, of SyscallAdditions; never with strict
}

// SyscallAdditions is the closed table of names that may be added to the
// default filter.
var SyscallAdditions = []string{"keyring", "perf", "userfaultfd"}

// tree builds the index of the file rules.
func (p *Profile) tree() *tree { return newTree(p.Grants, p.Carves) }

// Access is the effective access to a clean absolute path: the union of the
// grants at or above it, each capped by the carve-outs that are at or below the
// grant and at or above the path. For many questions seal once and use Decide.
func (p *Profile) Access(path string) Access { return p.tree().access(path) }

// setFiles replaces the file rules by those of t.
func (p *Profile) setFiles(t *tree) { p.Grants, p.Carves = t.grants(), t.carves() }

// tidy brings everything but the file rules into one form.
func (p *Profile) tidy() {
	switch {
	case p.Net.Mode == NetNone:
		p.Net.Allow = nil
	case p.Net.Mode == NetDirect && p.Net.Allow == nil:
		p.Net.Allow = []Entry{}
	}
	p.Net.Allow = maximal(p.Net.Allow)
	p.Net.Listen = sortedSet(p.Net.Listen)
	p.Net.Unix = sortedSet(p.Net.Unix)
	p.Env.Pass = sortedSet(p.Env.Pass)
	p.Process.Syscalls.Additions = sortedSet(p.Process.Syscalls.Additions)
}

// sortedSet is a sorted copy of s, each value once; nil where s is empty.
func sortedSet[T interface{ ~string | ~uint16 }](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	s = slices.Clone(s)
	slices.Sort(s)
	return slices.Compact(s)
}

// joinNames and meetNames keep the names of what went in, so that a composed
// profile says where it came from.
func joinNames(a, b string) string {
	parts := splitName(a, "+")
	for _, n := range splitName(b, "+") {
		if !slices.Contains(parts, n) {
			parts = append(parts, n)
		}
	}
	return strings.Join(parts, "+")
}

func meetNames(a, b string) string {
	return strings.Join(sortedSet(append(splitName(a, "&"), splitName(b, "&")...)), "&")
}

func splitName(s, sep string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, sep)
}
