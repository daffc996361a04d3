package profiles

import (
	"fmt"
	"strings"
)

// opens is the smallest change that would allow op on p.
func (s *Sealed) opens(op Op, p string, f found, need Access) []string {
	if f.own {
		return nil
	}
	var closed, inside *Invariant
	s.over(p, func(inv Invariant) {
		switch {
		case inv.Strength == EveryRun, s.caller != Terminal && inv.Strength == DoorRun, inv.Strength == Settings && (s.caller == Door || need != Read):
			closed = &inv
		case inv.Strength == DoorRun && inv.Path == p && !inv.File:
			inside = &inv
		}
	})
	switch {
	case closed != nil:
		return []string{fmt.Sprintf("nothing opens %q: %s", p, closed.ID)}
	case inside != nil:
		return []string{fmt.Sprintf("name the files in %q one by one (%s)", p, inside.ID)}
	case op == OpUnix:
		return []string{"--unix " + quotePath(p)}
	}
	if i := s.tree.find(p); i >= 0 && s.tree.nodes[i].capped && s.tree.nodes[i].cap&need == 0 {
		return []string{fmt.Sprintf("take the rule %s away, or give it %s", s.tree.nodes[i].capID, f.access|need|readFor(need))}
	}
	return []string{flagFor(f.access|need|readFor(need), p)}
}

// readFor adds the read that an execute needs.
func readFor(need Access) Access {
	if need == Exec {
		return Read
	}
	return None
}

// flagFor writes the flags that give at least a. Each right that the path has
// already must be named again, since the narrower rule wins.
func flagFor(a Access, p string) string {
	q := quotePath(p)
	switch {
	case a&Write == 0 && a&Exec == 0:
		return "--ro " + q
	case a&Exec == 0:
		return "--rw " + q
	case a&Write == 0:
		return "--rx " + q
	}
	return "--rw " + q + " --rx " + q
}

// closes is the flag that takes the right away.
func closes(need Access, p string) string {
	if need == Read {
		return "--deny " + quotePath(p)
	}
	return "--ro " + quotePath(p)
}

// quotePath leaves simple paths as they are.
func quotePath(p string) string {
	if plain(p) && !strings.ContainsAny(p, " \t\"'\\$`!*?[]{}()<>|&;#~") {
		return p
	}
	return fmt.Sprintf("%q", p)
}
