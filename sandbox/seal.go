package sandbox

import (
	"fmt"
	"maps"
	"slices"

	"lockbox/profiles"
)

// Sealed is a profile on physical paths with the invariants in it, and the
// symlinks that its rules went through.
type Sealed struct {
	*profiles.Sealed
	Links []Link
}

// Seal resolves the symlinks in a profile's paths and then seals it. The kernel
// knows only physical paths: a rule on a link is a rule on its target, and an
// invariant behind a link is closed at both ends. A rule path that leads through
// a link which the run itself could replace is refused: the next run would
// follow it somewhere else.
func Seal(p *profiles.Profile, ex profiles.Expand, c profiles.Caller, fsys FS) (*Sealed, error) {
	fsys = remember(fsys)
	out := &Sealed{}
	seen := map[Link]bool{}
	physical := func(path string) (string, error) {
		real, links, err := Resolve(fsys, path)
		for _, k := range links {
			if !seen[k] {
				seen[k] = true
				out.Links = append(out.Links, k)
			}
		}
		return real, err
	}
	q := *p
	q.Carves = nil
	grants, carves := make(map[string]int, len(p.Grants)), make(map[string]int, len(p.Carves))
	q.Grants = make([]profiles.Grant, 0, len(p.Grants))
	for _, g := range p.Grants {
		real, err := physical(g.Path)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", g.ID, err)
		}
		g.Path = real
		if i, ok := grants[real]; ok {
			q.Grants[i].Access |= g.Access
			q.Grants[i].Optional = q.Grants[i].Optional && g.Optional
			continue
		}
		grants[real] = len(q.Grants)
		q.Grants = append(q.Grants, g)
	}
	addCarve := func(v profiles.Carve) {
		if i, ok := carves[v.Path]; ok {
			q.Carves[i].Cap &= v.Cap
			return
		}
		carves[v.Path] = len(q.Carves)
		q.Carves = append(q.Carves, v)
	}
	for _, v := range p.Carves {
		real, err := physical(v.Path)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", v.ID, err)
		}
		v.Path = real
		addCarve(v)
	}
	ruleLinks := slices.Clone(out.Links)
	q.Net.Unix = nil
	for _, u := range p.Net.Unix {
		real, err := physical(u)
		if err != nil {
			return nil, fmt.Errorf("net.unix: %w", err)
		}
		q.Net.Unix = append(q.Net.Unix, real)
	}
	px, err := physicalExpand(ex, physical)
	if err != nil {
		return nil, err
	}
	// Invariants behind links of their own: ~/.ssh may itself be a link.
	for _, inv := range profiles.Invariants(ex) {
		real, _, err := Resolve(fsys, inv.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", inv.ID, err)
		}
		if real != inv.Path && inv.Strength != profiles.Settings {
			if _, named := grants[real]; named && inv.Strength == profiles.DoorRun && inv.File && c == profiles.Terminal {
				continue
			}
			addCarve(profiles.Carve{Path: real, Cap: profiles.None, Optional: true, ID: inv.ID})
		}
	}
	out.Sealed, err = profiles.Seal(&q, px, c)
	if err != nil {
		return nil, err
	}
	for _, k := range ruleLinks {
		if out.Decide(profiles.OpCreate, profiles.Object{Path: k.At}).Allow {
			return nil, &CannotEnforceError{Rule: "a rule", Path: k.At,
				Why:  "the rule's path leads through this symbolic link, which the run could replace",
				Hint: "name the target itself: " + k.Target}
		}
	}
	return out, nil
}

func physicalExpand(ex profiles.Expand, physical func(string) (string, error)) (profiles.Expand, error) {
	var err error
	one := func(p string) string {
		if p == "" || err != nil {
			return p
		}
		var real string
		real, err = physical(p)
		return real
	}
	out := ex
	out.Home, out.Workspace, out.TmpDir = one(ex.Home), one(ex.Workspace), one(ex.TmpDir)
	out.XDG = maps.Clone(ex.XDG)
	for k, v := range out.XDG {
		out.XDG[k] = one(v)
	}
	out.StateDirs, out.ConfigDirs = nil, nil
	for _, d := range ex.StateDirs {
		out.StateDirs = append(out.StateDirs, one(d))
	}
	for _, d := range ex.ConfigDirs {
		out.ConfigDirs = append(out.ConfigDirs, one(d))
	}
	return out, err
}
