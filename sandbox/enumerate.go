package sandbox

import (
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	"lockbox/profiles"
)

// enumerate closes carve-outs inside trees that are not writable. Landlock
// cannot subtract, so the rule on the tree's top is replaced by rules on every
// entry beside the way down to a carve-out. What a carve-out names is then in no
// rule at all: it stays closed even if somebody outside replaces it or it
// appears later. The price: entries that appear later beside the way are closed
// too until the next start.
func (l *layout) enumerate(rules []profiles.Rule, live map[string]*node, fsys FS) error {
	ways := map[*node][]profiles.Rule{}
	for _, r := range rules {
		if n := live[r.Path]; n != nil && n.kind == nodeBind && r.Access != 0 && !r.Carve {
			continue // gives more than what is around it
		}
		if !r.Carve && r.Access != 0 {
			continue
		}
		top := nearest(live, r.Path)
		if top == nil || top.access == 0 || (top.access|around(top))&profiles.Write != 0 || (top.kind != nodeBind && top.kind != nodeSelf) {
			continue
		}
		ways[top] = append(ways[top], r)
	}
	tops := make([]*node, 0, len(ways))
	for n := range ways {
		tops = append(tops, n)
	}
	sort.Slice(tops, func(i, j int) bool { return tops[i].path < tops[j].path })
	for _, top := range tops {
		if err := l.enumerateTop(top, ways[top], live, fsys); err != nil {
			return err
		}
	}
	return nil
}

func (l *layout) enumerateTop(top *node, carves []profiles.Rule, live map[string]*node, fsys FS) error {
	onWay := map[string]bool{} // directories from top down to each carve-out
	closed := map[string]bool{}
	for _, c := range carves {
		closed[c.Path] = true
		for d := path.Dir(c.Path); ; d = path.Dir(d) {
			onWay[d] = true
			if d == top.path || d == "/" {
				break
			}
		}
	}
	var entries []entry
	var lists []string
	dirs := make([]string, 0, len(onWay))
	for d := range onWay {
		dirs = append(dirs, d)
	}
	sort.Strings(dirs)
	for _, d := range dirs {
		if insideOther(live, top, d) {
			continue
		}
		mode, err := fsys.Lstat(d)
		if err != nil || !mode.IsDir() {
			continue // does not exist: its own parent is enumerated without it
		}
		names, err := fsys.ReadDir(d)
		if err != nil {
			return &CannotEnforceError{Rule: carves[0].ID, Path: d, Why: "its entries cannot be listed: " + errText(err), Hint: "grant narrower directories"}
		}
		sort.Strings(names)
		lists = append(lists, d)
		for _, name := range names {
			p := path.Join(d, name)
			if onWay[p] || closed[p] || live[p] != nil {
				continue
			}
			m, err := fsys.Lstat(p)
			if err != nil || m&(fs.ModeSymlink|fs.ModeSocket) != 0 {
				continue
			}
			entries = append(entries, entry{path: p, access: top.access, dir: m.IsDir()})
		}
	}
	if len(l.entries)+len(entries) <= maxEntries {
		top.enumerated = true
		l.entries = append(l.entries, entries...)
		l.lists = append(l.lists, lists...)
		return nil
	}
	return l.fallBackToCovers(top, carves, live, len(entries))
}

// fallBackToCovers keeps the rule on the tree's top and relies on the mounts;
// that holds for directories that exist, watched from outside.
func (l *layout) fallBackToCovers(top *node, carves []profiles.Rule, live map[string]*node, n int) error {
	for _, c := range carves {
		m := live[c.Path]
		if m == nil || !m.dir {
			return &CannotEnforceError{Rule: c.ID, Path: c.Path,
				Why:  fmt.Sprintf("it is no existing directory, and %s has %d entries beside it (at most %d can be ruled one by one)", top.path, n, maxEntries),
				Hint: "grant narrower directories than " + top.path}
		}
		l.watches = append(l.watches, Watch{path.Dir(c.Path), path.Base(c.Path), c.ID})
	}
	l.notes = append(l.notes, fmt.Sprintf("%s: %d entries, so closed paths below it are covered by mounts and watched, not left out of Landlock's rules", top.path, n))
	return nil
}

// insideOther reports whether d lies in a node of its own below top (its entries
// then belong to that node).
func insideOther(live map[string]*node, top *node, d string) bool {
	if d == top.path {
		return false
	}
	n := live[d]
	if n == nil {
		n = nearest(live, d)
	}
	return n != top && strings.HasPrefix(n.path, strings.TrimSuffix(top.path, "/")+"/")
}
