package seccomp

// Insn is one instruction of classic BPF, laid out like struct sock_filter. A conditional jump goes Jt or Jf instructions
// forward from the next one.
type Insn struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

// Filter is a program for seccomp(2). An empty one is not loadable: the kernel answers EINVAL.
type Filter []Insn

// Depth returns the number of instructions on the longest way through the filter.
func (f Filter) Depth() int {
	deep := make([]int, len(f))
	for i := len(f) - 1; i >= 0; i-- {
		deep[i] = 1
		for _, next := range f.next(i) {
			if next < len(f) {
				deep[i] = max(deep[i], 1+deep[next])
			}
		}
	}
	if len(deep) == 0 {
		return 0
	}
	return deep[0]
}

// next lists the instructions that may follow instruction i.
func (f Filter) next(i int) []int {
	switch in := f[i]; in.Code {
	case opRet:
		return nil
	case opJa:
		return []int{i + 1 + int(in.K)}
	case opJeq, opJge, opJset:
		return []int{i + 1 + int(in.Jt), i + 1 + int(in.Jf)}
	}
	return []int{i + 1}
}
