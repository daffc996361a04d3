package sandbox

import (
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	"lockbox/profiles"
)

// nodeKind says where a node of the run's file tree comes from.
type nodeKind uint8

const (
	nodeBind   nodeKind = iota // the host's file or directory, bound at the same path
	nodeSelf                   // bound onto itself inside an outer bind: a carve-out, or a pin on the way to one
	nodeMask                   // closed inside something granted: covered by an empty, unreadable one
	nodeTmp                    // private directory of the run (/tmp, /var/tmp, /dev/shm)
	nodeDev                    // the run's own /dev, a directory of the skeleton
	nodeProc                   // the run's own /proc
	nodePTS                    // the run's own /dev/pts
	nodeSocket                 // a Unix socket that the profile names
	nodeHosts                  // /etc/hosts with the pinned names
	nodeHide                   // a host directory hidden under an empty one that may hold named entries (/run below a granted /)
)

// node is one mount of the run's tree.
type node struct {
	path   string
	access profiles.Access
	rule   string // id of the profile rule, or "built-in"
	dir    bool
	device bool
	src    string // host path, where it is not path
	kind   nodeKind
	parent *node
	from   *profiles.Rule // the profile's rule on this path, nil without one
	// enumerated: Landlock rules go on the entries below instead of on this
	// directory, so that what a carve-out names is in no rule at all.
	enumerated bool
}

// source is the host path that n shows.
func (n *node) source() string {
	if n.src != "" {
		return n.src
	}
	return n.path
}

// skeleton reports whether entries below n are made by the script (they exist
// in no host directory).
func (n *node) skeleton() bool {
	return n == nil || n.kind == nodeTmp || n.kind == nodeDev || n.kind == nodeHide || n.kind == nodeMask
}

// Watch is a directory entry that a carve-out covers: when somebody outside the
// run replaces it, the cover is gone and the run must be ended.
type Watch struct{ Dir, Name, Rule string }

// entry is one more Landlock rule: a host path below an enumerated directory.
type entry struct {
	path   string
	access profiles.Access
	dir    bool
}

// layout is the file half of a plan.
type layout struct {
	nodes   []*node
	links   []Link
	entries []entry
	lists   []string // enumerated directories: readable as lists, their entries by rule
	watches []Watch
	notes   []string
}

// maxEntries bounds the Landlock rules that one closed path inside a readable
// tree may cost: restrict_self copies every rule at each start (about 0.25 µs
// each), and each holds a descriptor while the ruleset is built.
const maxEntries = 4096

// layoutOptions are the run's own parts.
type layoutOptions struct {
	tty   bool
	term  string // the caller's terminal, "" for none
	unix  []string
	hosts bool
	links []Link
}

// newLayout turns the sealed rules into a tree of mounts and Landlock rules. It
// reads the host only through fsys.
func newLayout(rules []profiles.Rule, pins []string, fsys FS, o layoutOptions) (*layout, error) {
	l := &layout{}
	byPath := make(map[string]*node, len(rules)+len(pins)+16)
	add := func(n *node) { l.nodes = append(l.nodes, n); byPath[n.path] = n }

	for _, n := range builtins(o) {
		add(n)
	}
	for i := range rules {
		r := &rules[i]
		if n := byPath[r.Path]; n != nil || underProc(r.Path) {
			if n != nil {
				n.from = r
			}
			// The pinned names stand in for the host's /etc/hosts.
			pinned := n != nil && n.kind == nodeHosts && !r.Access.Has(profiles.Write)
			if r.Access != 0 && !pinned {
				return nil, &CannotEnforceError{Rule: r.ID, Path: r.Path, Why: "the run has its own there", Hint: "leave the rule out"}
			}
			continue
		}
		if r.Path == "/" {
			add(&node{path: "/", access: r.Access, rule: r.ID, dir: true, kind: nodeBind, from: r})
			add(&node{path: "/run", rule: "built-in", dir: true, kind: nodeHide})
			continue
		}
		add(&node{path: r.Path, access: r.Access, rule: r.ID, from: r})
	}
	for _, p := range pins {
		if byPath[p] == nil {
			add(&node{path: p, rule: "pin", dir: true, kind: nodeSelf})
		}
	}
	sort.Slice(l.nodes, func(i, j int) bool { return l.nodes[i].path < l.nodes[j].path })

	kept := l.nodes[:0]
	live := make(map[string]*node, len(l.nodes))
	for _, n := range l.nodes {
		n.parent = nearest(live, n.path)
		keep, err := l.place(n, fsys)
		if err != nil {
			return nil, err
		}
		if keep {
			kept = append(kept, n)
			live[n.path] = n
		}
	}
	l.nodes = kept
	if err := l.enumerate(rules, live, fsys); err != nil {
		return nil, err
	}
	l.placeLinks(o.links, live)
	return l, nil
}

// builtins are the parts of the tree that every run has.
func builtins(o layoutOptions) []*node {
	rwx := profiles.Read | profiles.Write | profiles.Exec
	rw := profiles.Read | profiles.Write
	b := "built-in"
	nodes := []*node{
		{path: "/tmp", access: rwx, rule: b, dir: true, kind: nodeTmp},
		{path: "/var/tmp", access: rwx, rule: b, dir: true, kind: nodeTmp},
		{path: "/dev", rule: b, dir: true, kind: nodeDev},
		{path: "/dev/shm", access: rwx, rule: b, dir: true, kind: nodeTmp},
		{path: "/proc", access: profiles.Read, rule: b, dir: true, kind: nodeProc},
	}
	for _, d := range []string{"null", "zero", "full", "random", "urandom"} {
		nodes = append(nodes, &node{path: "/dev/" + d, access: rw, rule: b, device: true, kind: nodeBind})
	}
	if o.tty {
		nodes = append(nodes,
			&node{path: "/dev/tty", access: rw, rule: b, device: true, kind: nodeBind},
			&node{path: "/dev/pts", access: rw, rule: b, dir: true, kind: nodePTS})
		if o.term != "" {
			// The terminal's own name is in the host's /dev/pts, which is hidden:
			// ttyname(3) finds it here, as in a container.
			nodes = append(nodes, &node{path: "/dev/console", src: o.term, access: rw, rule: b, device: true, kind: nodeBind})
		}
	}
	if o.hosts {
		nodes = append(nodes, &node{path: "/etc/hosts", access: profiles.Read, rule: b, kind: nodeHosts})
	}
	for _, u := range o.unix {
		nodes = append(nodes, &node{path: u, rule: "net.unix", kind: nodeSocket})
	}
	return nodes
}

func underProc(p string) bool { return p == "/proc" || strings.HasPrefix(p, "/proc/") }

// nearest returns the closest live node above p.
func nearest(live map[string]*node, p string) *node {
	for p != "/" {
		p = path.Dir(p)
		if n := live[p]; n != nil {
			return n
		}
	}
	return nil
}

// granting returns the access that holds just outside n.
func granting(n *node) profiles.Access {
	if n == nil {
		return 0
	}
	return n.access
}

// around returns every access that Landlock rules above n give to what lies at
// n: the kernel walks up through mounts, so an outer rule reaches into them.
func around(n *node) profiles.Access {
	var a profiles.Access
	for n = n.parent; n != nil; n = n.parent {
		a |= n.access
	}
	return a
}

// place decides what kind of mount n is, or drops it.
func (l *layout) place(n *node, fsys FS) (bool, error) {
	switch n.kind {
	case nodeTmp, nodeDev, nodeProc, nodePTS, nodeHosts:
		return true, nil
	case nodeHide:
		return true, nil
	}
	if n.path == "/" {
		return true, nil
	}
	outer := granting(n.parent)
	mode, err := fsys.Lstat(n.source())
	if err != nil {
		return l.absent(n, outer, err, fsys)
	}
	n.dir = mode.IsDir()
	n.device = n.device || mode&fs.ModeDevice != 0
	switch {
	case n.kind == nodeSocket:
		if mode&fs.ModeSocket == 0 {
			return false, &CannotEnforceError{Rule: n.rule, Path: n.path, Why: "it is not a socket", Hint: "name the socket's own path"}
		}
		return true, nil
	case n.rule == "pin":
		n.access = outer
		l.watches = append(l.watches, Watch{path.Dir(n.path), path.Base(n.path), n.rule})
		return outer != 0, nil
	case n.rule == "built-in":
		return true, nil
	case n.access == 0:
		if outer == 0 {
			return false, nil
		}
		n.kind = nodeMask
		return true, l.covered(n, outer)
	case n.parent != nil && !n.parent.skeleton() && n.access&^outer == 0:
		if n.access == outer {
			return false, nil
		}
		n.kind = nodeSelf
		return true, l.covered(n, outer)
	}
	if n.access&profiles.Read == 0 && around(n)&profiles.Read != 0 {
		return false, l.unreadable(n)
	}
	return true, nil
}

// absent judges a rule whose path does not exist.
func (l *layout) absent(n *node, outer profiles.Access, err error, fsys FS) (bool, error) {
	if n.rule == "built-in" || n.rule == "pin" {
		return false, nil
	}
	var r profiles.Rule
	if n.from != nil {
		r = *n.from
	}
	if n.access == 0 || (r.Carve && outer != 0) {
		if around(n)&profiles.Write == 0 {
			return false, nil // nothing to cover; enumeration keeps it closed when it appears
		}
		if r.Optional {
			// Making it does no harm by itself; but what somebody outside puts
			// there must not become readable.
			if dir := path.Dir(n.path); n.access == 0 && isDir(fsys, dir) {
				l.watches = append(l.watches, Watch{dir, path.Base(n.path), n.rule})
			}
			return false, nil
		}
		return false, &CannotEnforceError{Rule: n.rule, Path: n.path,
			Why:  "it does not exist, and the run could create it under the writable " + n.parent.path,
			Hint: fmt.Sprintf("create %s first, or grant narrower directories than %s", n.path, n.parent.path)}
	}
	if r.Optional {
		return false, nil
	}
	return false, &CannotEnforceError{Rule: n.rule, Path: n.path, Why: "the path cannot be used: " + errText(err) + "; a rule holds only for what exists at the start",
		Hint: "create it first, or write `optional = true` in the rule"}
}

// covered checks that a mount can keep a carve-out below a writable tree, and
// has it watched.
func (l *layout) covered(n *node, outer profiles.Access) error {
	if around(n)&profiles.Write == 0 {
		return nil // enumeration decides; see enumerate
	}
	if n.access != 0 && outer&^n.access&profiles.Read != 0 {
		return l.unreadable(n)
	}
	if n.kind == nodeMask && !n.dir {
		return &CannotEnforceError{Rule: n.rule, Path: n.path,
			Why:  "a single file inside a writable tree cannot be kept closed: whoever replaces it from outside uncovers it",
			Hint: "close its directory, or grant the entries beside it one by one"}
	}
	l.watches = append(l.watches, Watch{path.Dir(n.path), path.Base(n.path), n.rule})
	return nil
}

func (l *layout) unreadable(n *node) error {
	return &CannotEnforceError{Rule: n.rule, Path: n.path,
		Why:  "reading cannot be taken away inside a readable and writable tree while writing stays",
		Hint: `use access = "none", or move the directory out of the tree`}
}

func errText(err error) string {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// placeLinks keeps the links that lie in the skeleton: a link inside a bound
// directory is there already.
func (l *layout) placeLinks(links []Link, live map[string]*node) {
	seen := map[string]bool{}
	for _, k := range links {
		if seen[k.At] || live[k.At] != nil {
			continue
		}
		seen[k.At] = true
		if n := nearest(live, k.At); n.skeleton() || (n.kind == nodeHide) {
			l.links = append(l.links, k)
		}
	}
	for _, k := range []Link{{"/dev/fd", "/proc/self/fd"}, {"/dev/stdin", "/proc/self/fd/0"}, {"/dev/stdout", "/proc/self/fd/1"}, {"/dev/stderr", "/proc/self/fd/2"}} {
		if live[k.At] == nil {
			l.links = append(l.links, k)
		}
	}
	if live["/dev/pts"] != nil {
		l.links = append(l.links, Link{"/dev/ptmx", "pts/ptmx"})
	}
}

func isDir(fsys FS, p string) bool {
	m, err := fsys.Lstat(p)
	return err == nil && m.IsDir()
}
