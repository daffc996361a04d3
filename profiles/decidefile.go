package profiles

import (
	"fmt"
	"path"
	"slices"
)

// found is the access to a path and the rule that decides each right.
type found struct {
	access Access
	by     [len(bits)]string
	own    bool // a built-in place decides
}

// look finds what decides at a clean path.
func (s *Sealed) look(p string) found {
	i := s.tree.nearest(p)
	if b, ok := s.builtinAt(p); ok && (i < 0 || s.shadowed[i] || !within(s.tree.nodes[i].path, b.Path)) {
		f := found{access: b.Access, own: true}
		for i := range f.by {
			f.by[i] = b.ID
		}
		return f
	}
	if i < 0 {
		return found{by: [len(bits)]string{byDefault, byDefault, byDefault}}
	}
	n := &s.tree.nodes[i]
	return found{access: n.eff, by: n.by}
}

// builtinAt is the deepest built-in place at or above p.
func (s *Sealed) builtinAt(p string) (Builtin, bool) {
	for {
		if b, ok := s.builtins[p]; ok {
			return b, true
		}
		if p == "/" {
			return Builtin{}, false
		}
		p = parentOf(p)
	}
}

// mountOf is the mount that holds the name of p: a rename or link cannot leave
// it.
func (s *Sealed) mountOf(p string) string {
	for p != "/" {
		if p = parentOf(p); s.mounts[p] {
			return p
		}
	}
	return "/"
}

// needs is the right that each operation asks of each path that it names.
var needs = [...]Access{
	OpRead: Read, OpWrite: Write, OpExec: Exec, OpCreate: Write,
	OpRemove: Write, OpRename: Write, OpLink: Write, OpMetadata: Write, OpUnix: Write,
}

func (s *Sealed) decideFile(op Op, o Object) Decision {
	var d Decision
	paths := []string{o.Path}
	if op == OpRename || op == OpLink {
		paths = append(paths, o.To)
	}
	for i, p := range paths {
		clean, err := cleanPath(p)
		if err != nil {
			return d.deny("path", err.Error(), byDefault)
		}
		paths[i] = clean
	}
	switch {
	case op == OpStat:
		return s.decideStat(d, paths[0])
	case op == OpUnix && slices.Contains(s.profile.Net.Unix, paths[0]):
		return d.allow("net.unix", "named", "net.unix")
	}
	need := needs[op]
	var rule string
	for _, p := range paths {
		f := s.look(p)
		rule = f.rule(need)
		if !f.access.Has(need) {
			return d.deny("access to "+path.Clean(p), fmt.Sprintf("%s, and %s needs %s", f.access, op, letter(need)), rule, s.opens(op, p, f, need)...)
		}
		d.step("access to "+p, f.access.String(), rule)
	}
	if bad, why := s.atBorder(op, paths); bad {
		return d.deny("mounts", why, "builtin:mount")
	}
	d.Allow, d.Rule = true, rule
	if op != OpUnix && !s.look(paths[0]).own {
		d.Change = []string{closes(need, paths[0])}
	}
	return d
}

// atBorder finds what the kernel refuses although both names are writable.
func (s *Sealed) atBorder(op Op, paths []string) (bool, string) {
	switch op {
	case OpRemove, OpRename:
		for _, p := range paths {
			if s.mounts[p] || p == "/" {
				return true, fmt.Sprintf("%q is a mount of the run (EBUSY)", p)
			}
		}
	case OpLink:
		if s.mounts[paths[1]] {
			return true, fmt.Sprintf("%q exists (EEXIST)", paths[1])
		}
		if s.mounts[paths[0]] {
			return true, fmt.Sprintf("%q is a mount of the run (EXDEV)", paths[0])
		}
	case OpMetadata:
		if b, ok := s.builtins[paths[0]]; ok && !b.Private {
			return true, fmt.Sprintf("%q is the host's; only its content is open (EROFS)", paths[0])
		}
	}
	if len(paths) == 2 {
		if a, b := s.mountOf(paths[0]), s.mountOf(paths[1]); a != b {
			return true, fmt.Sprintf("%q and %q are two mounts of the run (EXDEV)", a, b)
		}
	}
	return false, ""
}

func (s *Sealed) decideStat(d Decision, p string) Decision {
	f := s.look(p)
	rule := f.rule(Read)
	switch {
	case f.access != None:
		return d.allow("access to "+p, f.access.String(), rule)
	case s.bare[p] || p == "/":
		return d.allow("access to "+p, "a bare directory above what is open", rule)
	}
	return d.deny("access to "+p, f.access.String(), rule, s.opens(OpStat, p, f, Read)...)
}

// rule is the id of what decides about the right need.
func (f found) rule(need Access) string {
	for i, b := range bits {
		if need == b {
			return f.by[i]
		}
	}
	return byDefault
}

func letter(need Access) string {
	for i, b := range bits {
		if need == b {
			return letters[i : i+1]
		}
	}
	return ""
}
