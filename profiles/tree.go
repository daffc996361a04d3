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

// tree answers for a path in as many searches as it has components.
type tree struct {
	nodes []node // in the order of comparePaths: parents before children
}

// byDefault is the rule id of what nothing names.
const byDefault = "default"

// named is a rule's path and its place in the list of grants; in that of
// carve-outs, its complement.
type named struct {
	path string
	i    int
}

func newTree(grants []Grant, carves []Carve) *tree {
	rules := make([]named, 0, len(grants)+len(carves))
	for i := range grants {
		rules = append(rules, named{grants[i].Path, i})
	}
	for i := range carves {
		rules = append(rules, named{carves[i].Path, ^i})
	}
	slices.SortStableFunc(rules, func(a, b named) int { return comparePaths(a.path, b.path) })
	t := &tree{nodes: make([]node, 0, len(rules))}
	for _, r := range rules {
		if n := len(t.nodes); n == 0 || t.nodes[n-1].path != r.path {
			t.nodes = append(t.nodes, node{path: r.path, cap: all})
		}
		n := &t.nodes[len(t.nodes)-1]
		if r.i >= 0 {
			n.addGrant(grants[r.i])
		} else {
			n.addCarve(carves[^r.i])
		}
	}
	t.settle()
	return t
}

// settle finds what encloses each node, and what that gives.
func (t *tree) settle() {
	var open []int
	for i := range t.nodes {
		n := &t.nodes[i]
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
}

// find is the index of the node of p, or −1.
func (t *tree) find(p string) int {
	low, high := 0, len(t.nodes)
	for low < high {
		mid := int(uint(low+high) / 2)
		switch c := comparePaths(t.nodes[mid].path, p); {
		case c == 0:
			return mid
		case c < 0:
			low = mid + 1
		default:
			high = mid
		}
	}
	return -1
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
		if i := t.find(p); i >= 0 {
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
	n := 0
	for i := range t.nodes {
		if t.nodes[i].granted {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]Grant, 0, n)
	for i := range t.nodes {
		if n := &t.nodes[i]; n.granted {
			out = append(out, Grant{n.path, n.grant, n.grantOpt, n.grantID})
		}
	}
	return out
}

func (t *tree) carves() []Carve {
	n := 0
	for i := range t.nodes {
		if t.nodes[i].capped {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]Carve, 0, n)
	for i := range t.nodes {
		if n := &t.nodes[i]; n.capped {
			out = append(out, Carve{n.path, n.cap, n.capOpt, n.capID})
		}
	}
	return out
}
