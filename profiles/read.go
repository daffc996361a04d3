package profiles

import "slices"

// read adds rules to the file rules of parent, each read in view of what
// encloses it: where a rule gives less than the view in any right, it is a
// carve-out and a grant of the same; else it is a grant. Order does not matter:
// outer paths are read before inner ones, and caps before the rest.
func read(parent *Profile, rules []placed) *tree {
	have := parent.tree()
	if len(rules) == 0 {
		return have
	}
	grants, carves := slices.Grow(slices.Clone(parent.Grants), len(rules)), slices.Clone(parent.Carves)
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b placed) int { return comparePaths(a.Path, b.Path) })

	// open holds the rules' paths around the current one, with what parent and
	// rules together give there.
	type view struct {
		path string
		eff  Access
	}
	points := merge(have, rules)
	var open []view
	for _, pt := range points {
		for len(open) > 0 && !within(pt.path, open[len(open)-1].path) {
			open = open[:len(open)-1]
		}
		var v Access
		if len(open) > 0 {
			v = open[len(open)-1].eff
		}
		cap := all
		if pt.node >= 0 {
			n := have.nodes[pt.node]
			v, cap = (v|n.grant)&n.cap, n.cap
		}
		for _, r := range pt.rules {
			if r.Carve {
				cap &= r.Access
				carves = append(carves, Carve{r.Path, r.Access, r.Optional, r.id})
			}
		}
		v &= cap
		given := together(pt.rules)
		for _, r := range pt.rules {
			switch {
			case r.Carve:
			case r.Access == None:
				cap = None
				carves = append(carves, Carve{r.Path, None, r.Optional, r.id})
			default:
				if !given.Has(v) {
					cap &= given
					carves = append(carves, Carve{r.Path, given, r.Optional, r.id})
				}
				grants = append(grants, Grant{r.Path, r.Access, r.Optional, r.id})
			}
		}
		open = append(open, view{pt.path, (v | given) & cap})
	}
	return newTree(grants, carves)
}

// together is what the plain rules of one path give: rw and rx are rwx.
func together(rules []placed) Access {
	var a Access
	for _, r := range rules {
		if !r.Carve {
			a |= r.Access
		}
	}
	return a
}

// point is a path that the parent or the rules name.
type point struct {
	path  string
	node  int // of the parent's tree, −1 without one
	rules []placed
}

// merge lists the named paths of both, outer before inner. Rules are sorted.
func merge(have *tree, rules []placed) []point {
	out := make([]point, 0, len(have.nodes)+len(rules))
	i := 0
	for i < len(have.nodes) || len(rules) > 0 {
		var pt point
		switch {
		case len(rules) == 0 || i < len(have.nodes) && comparePaths(have.nodes[i].path, rules[0].Path) < 0:
			pt = point{path: have.nodes[i].path, node: i}
			i++
		default:
			pt = point{path: rules[0].Path, node: -1}
			if i < len(have.nodes) && have.nodes[i].path == pt.path {
				pt.node = i
				i++
			}
			n := 0
			for n < len(rules) && rules[n].Path == pt.path {
				n++
			}
			pt.rules, rules = rules[:n], rules[n:]
		}
		out = append(out, pt)
	}
	return out
}
