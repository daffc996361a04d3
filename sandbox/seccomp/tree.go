package seccomp

// span is a run of call numbers from start up to the next span's start, which all lead to the same node.
// A few single numbers inside may lead elsewhere: one comparison each instead of the two that splitting would cost.
type span struct {
	start  uint32
	to     *node
	except [maxExceptions]exception
	n      int // exceptions in use
}

type exception struct {
	nr uint32
	to *node
}

// maxExceptions bounds the comparisons done in a row at a leaf of the tree, and with it the filter's depth.
const maxExceptions = 2

// spans folds a decision per number into spans. Numbers from len(to) on lead to above.
func spans(to []*node, above *node) []span {
	out := make([]span, 0, 128)
	for nr := 0; nr <= len(to); nr++ {
		n := above
		if nr < len(to) {
			n = to[nr]
		}
		if len(out) == 0 {
			out = append(out, span{start: uint32(nr), to: n})
			continue
		}
		last := &out[len(out)-1]
		if last.to == n {
			continue
		}
		alone := nr+1 < len(to) && to[nr+1] == last.to || nr+1 == len(to) && above == last.to
		if alone && last.n < maxExceptions {
			last.except[last.n] = exception{uint32(nr), n}
			last.n++
			continue
		}
		out = append(out, span{start: uint32(nr), to: n})
	}
	return out
}

// tree builds a balanced binary search over the spans. The number is in the accumulator. No two of its nodes are equal,
// so none is looked up.
func tree(s []span) *node {
	if len(s) == 1 {
		next := s[0].to
		for i := s[0].n - 1; i >= 0; i-- {
			next = &node{code: opJeq, k: s[0].except[i].nr, t: s[0].except[i].to, f: next}
		}
		return next
	}
	mid := len(s) / 2
	return &node{code: opJge, k: s[mid].start, t: tree(s[mid:]), f: tree(s[:mid])}
}
