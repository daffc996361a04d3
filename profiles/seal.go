package profiles

import (
	"fmt"
	"net/netip"
	"slices"
)

// Sealed is a profile with the invariants in it: what a run is held to.
type Sealed struct {
	profile *Profile
	caller  Caller
	notes   []string
	tree    *tree
	rules   []Rule
	pins    []string
	entries *entrySet
	hosts   map[string][]netip.Addr

	inv      map[string]Invariant
	builtins map[string]Builtin
	shadowed []bool          // by node: below a private place, where it names nothing visible
	mounts   map[string]bool // rule paths, pins and built-in places
	bare     map[string]bool // directories above something granted
}

// Seal closes the invariants in a copy of p. What p opens of them is dropped
// and noted; opening all of a closed directory at a terminal is an error, as
// that needs names one by one.
func Seal(p *Profile, ex Expand, c Caller) (*Sealed, error) {
	s := &Sealed{caller: c, profile: Join(&Profile{}, p)}
	list := Invariants(ex)
	s.inv = make(map[string]Invariant, len(list))
	for _, inv := range list {
		s.inv[inv.Path] = inv
	}
	named, err := s.dropGrants()
	if err != nil {
		return nil, err
	}
	s.profile.Carves = slices.Grow(s.profile.Carves, len(list))
	for _, inv := range list {
		s.profile.Carves = append(s.profile.Carves, Carve{inv.Path, s.capOf(inv, named), s.mayBeAbsent(inv), inv.ID})
	}
	if err := s.dropBuiltin(); err != nil {
		return nil, err
	}
	s.dropUnix()
	s.tree = s.profile.tree()
	s.profile.setFiles(s.tree)
	s.findRules()
	s.findPins()
	s.findMounts()
	s.entries = newEntrySet(s.profile.Net.Allow)
	return s, nil
}

// mayBeAbsent: what nobody may plant has to exist below a writable directory, or
// the run is refused. A person's own run may make an assistant's settings that
// are not there yet.
func (s *Sealed) mayBeAbsent(inv Invariant) bool {
	return !inv.Plant || inv.Strength == Settings && s.caller == Terminal
}

// Profile is the sealed profile.
func (s *Sealed) Profile() *Profile { return s.profile }

// Notes say what was asked for and not given, one line each.
func (s *Sealed) Notes() []string { return slices.Clone(s.notes) }

func (s *Sealed) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// over calls yield with each invariant at or above path.
func (s *Sealed) over(path string, yield func(Invariant)) {
	for {
		if inv, ok := s.inv[path]; ok {
			yield(inv)
		}
		if path == "/" {
			return
		}
		path = parentOf(path)
	}
}

// dropGrants takes away the grants that an invariant forbids. It returns the
// access to the files that a terminal run opens by their names.
func (s *Sealed) dropGrants() (map[string]Access, error) {
	named := map[string]Access{}
	kept := s.profile.Grants[:0]
	for _, g := range s.profile.Grants {
		asked := g.Access
		var by Invariant
		var err error
		s.over(g.Path, func(inv Invariant) {
			left := asked
			switch {
			case inv.Strength == EveryRun, inv.Strength == DoorRun && s.caller != Terminal, inv.Strength == Settings && s.caller == Door:
				left = None
			case inv.Strength == Settings:
				left = Read
			case inv.Path == g.Path && inv.File:
				named[g.Path] |= g.Access
			case inv.Path == g.Path:
				err = fmt.Errorf("%s: %q as a whole stays closed (%s); name the files in it one by one", g.ID, g.Path, inv.ID)
			}
			if g.Access&left != g.Access {
				g.Access, by = g.Access&left, inv
			}
		})
		if err != nil {
			return nil, err
		}
		if g.Access != asked {
			s.note("%s: %q gets %s instead of %s (%s)", g.ID, g.Path, g.Access, asked, by.ID)
		}
		if g.Access != None {
			kept = append(kept, g)
		}
	}
	s.profile.Grants = kept
	return named, nil
}

// capOf is how far an invariant leaves its path open.
func (s *Sealed) capOf(inv Invariant, named map[string]Access) Access {
	switch {
	case inv.Strength == DoorRun && s.caller == Terminal:
		return named[inv.Path]
	case inv.Strength == Settings && s.caller != Door:
		return Read
	}
	return None
}

// dropBuiltin takes away rules on places that every run has of its own.
func (s *Sealed) dropBuiltin() error {
	s.builtins = map[string]Builtin{}
	for _, b := range s.Builtins() {
		s.builtins[b.Path] = b
	}
	kept := s.profile.Grants[:0]
	for _, g := range s.profile.Grants {
		if b, ok := s.builtinRule(g.Path); ok {
			s.note("%s: %q is the run's own (%s); the rule has no effect", g.ID, g.Path, b.ID)
			continue
		}
		kept = append(kept, g)
	}
	s.profile.Grants = kept
	carves := s.profile.Carves[:0]
	for _, c := range s.profile.Carves {
		b, ok := s.builtinRule(c.Path)
		switch {
		case !ok:
			carves = append(carves, c)
		case b.Private && c.Path == b.Path && b.Path != "/proc" || c.Cap.Has(b.Access):
			s.note("%s: %q is the run's own (%s), and the host's is not visible there; the rule has no effect", c.ID, c.Path, b.ID)
		default:
			return fmt.Errorf("%s: %q cannot be closed: every run has it (%s)", c.ID, c.Path, b.ID)
		}
	}
	s.profile.Carves = carves
	return nil
}

// builtinRule finds the built-in place that a rule on path would touch: the
// same path, or anything in /proc.
func (s *Sealed) builtinRule(path string) (Builtin, bool) {
	if within(path, "/proc") {
		path = "/proc"
	}
	b, ok := s.builtins[path]
	return b, ok
}

// dropUnix takes away sockets that an invariant closes.
func (s *Sealed) dropUnix() {
	kept := s.profile.Net.Unix[:0]
	for _, path := range s.profile.Net.Unix {
		closed := ""
		s.over(path, func(inv Invariant) {
			if inv.Strength != DoorRun || s.caller != Terminal {
				closed = inv.ID
			}
		})
		if closed != "" {
			s.note("net.unix: %q stays closed (%s)", path, closed)
			continue
		}
		kept = append(kept, path)
	}
	s.profile.Net.Unix = kept
}

// WithHosts returns a copy in which the hosts of the allow list stand for the
// addresses that they had at the start of the run.
func (s *Sealed) WithHosts(hosts map[string][]netip.Addr) *Sealed {
	out := *s
	out.hosts = hosts
	return &out
}
