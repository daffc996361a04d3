package seccomp

import (
	"errors"
	"slices"
)

const (
	maxInsns  = 4096 // BPF_MAXINSNS
	maxOffset = 255  // jt and jf have 8 bits
)

// assembler lays nodes out from the program's end to its beginning, so that every target has its place before
// the jump to it. Where a target is further away than a jump's 8 bits reach, an unconditional jump (32 bits)
// is put directly behind the conditional one, as a trampoline.
type assembler struct {
	rev []Insn // the program, backwards
}

func assemble(root *node) (Filter, error) {
	a := assembler{rev: make([]Insn, 0, 256)}
	a.place(root)
	if root.at != len(a.rev) {
		return nil, errors.New("BUG: seccomp: the filter does not start with its root")
	}
	slices.Reverse(a.rev)
	if len(a.rev) > maxInsns {
		return nil, errors.New("BUG: seccomp: the filter has more than 4096 instructions")
	}
	return Filter(a.rev), nil
}

func (a *assembler) place(n *node) {
	if n.at != 0 {
		return
	}
	switch {
	case n.t == nil:
		a.emit(n, Insn{Code: n.code, K: n.k})
	case n.f == nil:
		a.place(n.t)
		if a.distance(n.t) != 0 {
			a.trampoline(n.t)
		}
		a.emit(n, Insn{Code: n.code, K: n.k})
	default:
		a.place(n.f)
		a.place(n.t)
		t, f := a.distance(n.t), a.distance(n.f)
		if f+1 > maxOffset { // one spare: a trampoline for t would move f
			f = a.trampoline(n.f)
			t = a.distance(n.t)
		}
		if t > maxOffset {
			t = a.trampoline(n.t)
			f++
		}
		a.emit(n, Insn{Code: n.code, Jt: uint8(t), Jf: uint8(f), K: n.k})
	}
}

// distance is how many instructions would lie between the next one emitted and n.
func (a *assembler) distance(n *node) int { return len(a.rev) - n.at }

func (a *assembler) emit(n *node, i Insn) {
	a.rev = append(a.rev, i)
	n.at = len(a.rev)
}

// trampoline emits a jump to n and returns the distance to it, which is 0.
func (a *assembler) trampoline(n *node) int {
	a.rev = append(a.rev, Insn{Code: opJa, K: uint32(a.distance(n))})
	return 0
}
