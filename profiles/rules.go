package profiles

import "strings"

// Rule is one path at which a run's access changes.
type Rule struct {
	Path     string
	Access   Access // effective at Path and below, up to the next rule
	Carve    bool   // takes away what encloses it
	Optional bool   // absent at the start: no error, and no rule
	ID       string
}

// Invariant reports whether the rule was compiled in.
func (r Rule) Invariant() bool { return strings.HasPrefix(r.ID, "invariant:") }

// Rules lists the paths at which the access changes, parents before children.
// The built-in places are not among them.
func (s *Sealed) Rules() []Rule { return append([]Rule(nil), s.rules...) }

// Pins lists the directories that must not be moved, because a carve-out lies
// below them: each one strictly between a writable rule path and a carve-out. A
// pin that does not exist lies above optional carve-outs that do not exist.
func (s *Sealed) Pins() []string { return append([]string(nil), s.pins...) }

// findRules also finds the nodes that name nothing visible: below a private
// place only what a rule opens there is of the host.
func (s *Sealed) findRules() {
	t := s.tree
	s.shadowed = make([]bool, len(t.nodes))
	for i := range t.nodes {
		n := &t.nodes[i]
		inherit := None
		if n.up >= 0 {
			inherit = t.nodes[n.up].eff
		}
		private := s.private(n.path)
		hidden := private != "" && (n.up < 0 || !within(t.nodes[n.up].path, private) || s.shadowed[n.up])
		if hidden {
			// Nothing of the host is visible here but what this very path opens.
			inherit = None
		}
		n.inherit, n.eff = inherit, (inherit|n.grant)&n.cap
		s.shadowed[i] = hidden && n.eff == None
		if n.eff == inherit {
			continue
		}
		s.rules = append(s.rules, n.rule(inherit, s))
	}
}

// private is the private place that strictly holds path, or "".
func (s *Sealed) private(path string) string {
	for path != "/" {
		path = parentOf(path)
		if b, ok := s.builtins[path]; ok && b.Private {
			return path
		}
	}
	return ""
}

func (n *node) rule(inherit Access, s *Sealed) Rule {
	r := Rule{Path: n.path, Access: n.eff, Carve: !n.eff.Has(inherit)}
	switch {
	case r.Carve:
		r.ID, r.Optional = n.capID, n.capOpt
		if inv, ok := s.inv[n.path]; ok && n.capID == inv.ID {
			// What cannot be created need not exist.
			r.Optional = n.capOpt || inherit&Write == 0
		}
	default:
		r.ID, r.Optional = n.grantID, n.grantOpt
	}
	return r
}

// findPins climbs from each carve-out to the outermost rule above it and pins
// the directories on the way wherever the rule above can be written.
func (s *Sealed) findPins() {
	at := make(map[string]int, len(s.rules))
	for i, r := range s.rules {
		at[r.Path] = i
	}
	done := make([]bool, len(s.rules))
	pinned := map[string]bool{}
	for i, r := range s.rules {
		if !r.Carve {
			continue
		}
		for !done[i] {
			done[i] = true
			up, between := s.climb(i, at, pinned)
			if up < 0 {
				break
			}
			if s.rules[up].Access&Write != 0 {
				for _, dir := range between {
					pinned[dir] = true
				}
			}
			i = up
		}
	}
	for dir := range pinned {
		s.pins = append(s.pins, dir)
	}
	sortPaths(s.pins)
}

// climb finds the next rule above rule i, and the directories in between up to
// the first that is pinned already.
func (s *Sealed) climb(i int, at map[string]int, pinned map[string]bool) (up int, between []string) {
	known := false
	for p := s.rules[i].Path; p != "/"; {
		p = parentOf(p)
		if up, ok := at[p]; ok {
			return up, between
		}
		if known = known || pinned[p]; !known {
			between = append(between, p)
		}
	}
	return -1, nil
}

// findMounts collects what Decide needs to know about borders and bare
// directories.
func (s *Sealed) findMounts() {
	s.mounts, s.bare = make(map[string]bool, len(s.rules)+len(s.pins)+len(s.builtins)), map[string]bool{}
	for _, r := range s.rules {
		s.mounts[r.Path] = true
		if r.Access != None {
			s.bareAbove(r.Path)
		}
	}
	for _, p := range s.pins {
		s.mounts[p] = true
	}
	for p := range s.builtins {
		s.mounts[p] = true
		s.bareAbove(p)
	}
}

func (s *Sealed) bareAbove(path string) {
	for path != "/" {
		path = parentOf(path)
		if s.bare[path] {
			return
		}
		s.bare[path] = true
	}
}
