package profiles

import "slices"

// Grant opens Path and everything below it.
type Grant struct {
	Path     string
	Access   Access
	Optional bool
	ID       string
}

// Carve caps the access to Path and everything below it, whatever was granted
// at Path or above it. A deeper grant opens again.
type Carve struct {
	Path     string
	Cap      Access
	Optional bool
	ID       string
}

// node is one path that a profile names.
type node struct {
	path string
	up   int // nearest enclosing named path, −1 without one

	granted, capped  bool
	grant, cap       Access // cap is all where not capped
	grantOpt, capOpt bool
	grantID, capID   string
	inherit, eff     Access // eff of up; eff = (inherit | grant) & cap
	by               [len(bits)]string
}

// tree answers for a path in as many look-ups as it has components.
type tree struct {
	nodes []node // parents before children
	at    map[string]int
}

// byDefault is the rule id of what nothing names.
const byDefault = "default"

func newTree(grants []Grant, carves []Carve) *tree {
	n := len(grants) + len(carves)
	t := &tree{nodes: make([]node, 0, n), at: make(map[string]int, n)}
	for _, g := range grants {
		t.node(g.Path).addGrant(g)
	}
	for _, c := range carves {
		t.node(c.Path).addCarve(c)
	}
	slices.SortFunc(t.nodes, func(a, b node) int { return comparePaths(a.path, b.path) })
	var open []int
	for i := range t.nodes {
		n := &t.nodes[i]
		t.at[n.path] = i
		for len(open) > 0 && !within(n.path, t.nodes[open[len(open)-1]].path) {
			open = open[:len(open)-1]
		}
		n.up = -1
		if len(open) > 0 {
			n.up = open[len(open)-1]
		}
		n.settle(t)
		open = append(open, i)
	}
	return t
}

func (t *tree) node(p string) *node {
	i, ok := t.at[p]
	if !ok {
		i = len(t.nodes)
		t.at[p] = i
		t.nodes = append(t.nodes, node{path: p, cap: all})
	}
	return &t.nodes[i]
}

func (n *node) addGrant(g Grant) {
	switch {
	case !n.granted:
		n.granted, n.grantOpt, n.grantID = true, g.Optional, g.ID
	case n.grant.Has(g.Access):
		n.grantOpt = n.grantOpt && g.Optional
	case g.Access.Has(n.grant):
		n.grantOpt, n.grantID = n.grantOpt && g.Optional, g.ID
	default:
		n.grantOpt, n.grantID = n.grantOpt && g.Optional, n.grantID+", "+g.ID
	}
	n.grant |= g.Access
}

func (n *node) addCarve(c Carve) {
	switch {
	case !n.capped:
		n.capped, n.capOpt, n.capID = true, c.Optional, c.ID
	case c.Cap.Has(n.cap):
		n.capOpt = n.capOpt && c.Optional
	case n.cap.Has(c.Cap):
		n.capOpt, n.capID = n.capOpt && c.Optional, c.ID
	default:
		n.capOpt, n.capID = n.capOpt && c.Optional, n.capID+", "+c.ID
	}
	n.cap &= c.Cap
}

// settle computes the effective access of n, and which rule decides each right.
func (n *node) settle(t *tree) {
	for i := range n.by {
		n.by[i] = byDefault
	}
	if n.up >= 0 {
		n.inherit, n.by = t.nodes[n.up].eff, t.nodes[n.up].by
	}
	n.eff = (n.inherit | n.grant) & n.cap
	for i, b := range bits {
		switch {
		case n.cap&b == 0:
			n.by[i] = n.capID
		case n.grant&b != 0 && n.inherit&b == 0:
			n.by[i] = n.grantID
		}
	}
}

// nearest is the index of the deepest named path at or above p, or −1.
func (t *tree) nearest(p string) int {
	for {
		if i, ok := t.at[p]; ok {
			return i
		}
		if p == "/" {
			return -1
		}
		p = parentOf(p)
	}
}

// access is the effective access to a clean absolute path.
func (t *tree) access(p string) Access {
	if i := t.nearest(p); i >= 0 {
		return t.nodes[i].eff
	}
	return None
}

// grants and carves are what the tree was made of, one a path, sorted.
func (t *tree) grants() []Grant {
	var out []Grant
	for _, n := range t.nodes {
		if n.granted {
			out = append(out, Grant{n.path, n.grant, n.grantOpt, n.grantID})
		}
	}
	return out
}

func (t *tree) carves() []Carve {
	var out []Carve
	for _, n := range t.nodes {
		if n.capped {
			out = append(out, Carve{n.path, n.cap, n.capOpt, n.capID})
		}
	}
	return out
}
