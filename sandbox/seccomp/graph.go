package seccomp

// Opcodes of classic BPF (linux/bpf_common.h), those that seccomp accepts and we use.
const (
	opLoad = 0x20 // BPF_LD|BPF_W|BPF_ABS
	opAnd  = 0x54 // BPF_ALU|BPF_AND|BPF_K
	opJa   = 0x05 // BPF_JMP|BPF_JA
	opJeq  = 0x15 // BPF_JMP|BPF_JEQ|BPF_K
	opJge  = 0x35 // BPF_JMP|BPF_JGE|BPF_K
	opJset = 0x45 // BPF_JMP|BPF_JSET|BPF_K
	opRet  = 0x06 // BPF_RET|BPF_K
)

// Offsets in struct seccomp_data. Both architectures are little-endian, so the low half of an argument comes first.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

func offLow(arg int) uint32  { return offArgs + 8*uint32(arg) }
func offHigh(arg int) uint32 { return offLow(arg) + 4 }

// node is one instruction and where it goes on: t and f for a jump, t alone for a load or an and, none for a return.
type node struct {
	code uint16
	k    uint32
	t, f *node
	at   int // the assembler's: 1 + the distance from the program's end, zero while it has no place
}

// graph makes nodes so that equal ones are the same pointer. All sharing of return and argument blocks comes from that.
// It holds some eighty nodes: looking through them is faster than a map.
type graph struct{ nodes []*node }

func (g *graph) intern(code uint16, k uint32, t, f *node) *node {
	for _, n := range g.nodes {
		if n.k == k && n.code == code && n.t == t && n.f == f {
			return n
		}
	}
	n := &node{code: code, k: k, t: t, f: f}
	g.nodes = append(g.nodes, n)
	return n
}

func (g *graph) ret(a Action) *node { return g.intern(opRet, uint32(a), nil, nil) }

func (g *graph) jump(code uint16, k uint32, t, f *node) *node {
	if t == f {
		return t
	}
	return g.intern(code, k, t, f)
}

// load reads the word at off, for next. It is dropped if next decides without reading it.
func (g *graph) load(off uint32, next *node) *node {
	if next.code == opRet {
		return next
	}
	return g.intern(opLoad, off, next, nil)
}

func (g *graph) and(mask uint32, next *node) *node {
	if mask == ^uint32(0) || next.code == opRet {
		return next
	}
	return g.intern(opAnd, mask, next, nil)
}

// choice says where a value of an argument leads.
type choice struct {
	vals []uint32
	then *node
}

// choose compares the low 32 bits of an argument, masked, with the values of each choice. That is the right
// comparison for arguments which the kernel takes as int: it ignores the upper half of the register, so must we.
func (g *graph) choose(arg int, mask uint32, otherwise *node, choices ...choice) *node {
	next := otherwise
	for i := len(choices) - 1; i >= 0; i-- {
		vals := choices[i].vals
		for j := len(vals) - 1; j >= 0; j-- {
			next = g.jump(opJeq, vals[j], choices[i].then, next)
		}
	}
	return g.load(offLow(arg), g.and(mask, next))
}

// anyBit goes to t if the low 32 bits of an argument have one of the bits, else to f.
func (g *graph) anyBit(arg int, bits uint32, t, f *node) *node {
	return g.load(offLow(arg), g.jump(opJset, bits, t, f))
}

// isZero64 goes to t if all 64 bits of an argument are zero, else to f: for pointers.
func (g *graph) isZero64(arg int, t, f *node) *node {
	high := g.load(offHigh(arg), g.jump(opJeq, 0, t, f))
	return g.load(offLow(arg), g.jump(opJeq, 0, high, f))
}
