package seccomp

import (
	"fmt"
	"strings"
)

// String returns the filter as text, one instruction a line, with absolute jump targets and the
// names of the words it loads.
func (f Filter) String() string {
	var b strings.Builder
	for i, in := range f {
		fmt.Fprintf(&b, "%4d  %s\n", i, f.line(i, in))
	}
	return b.String()
}

func (f Filter) line(i int, in Insn) string {
	switch in.Code {
	case opLoad:
		return "load " + wordName(in.K)
	case opAnd:
		return fmt.Sprintf("and  %#x", in.K)
	case opJa:
		return fmt.Sprintf("jump %d", i+1+int(in.K))
	case opJeq:
		return f.branch(i, in, "==")
	case opJge:
		return f.branch(i, in, ">=")
	case opJset:
		return f.branch(i, in, "has any of")
	case opRet:
		return "ret  " + Action(in.K).String()
	}
	return fmt.Sprintf("unknown code %#x jt %d jf %d k %#x", in.Code, in.Jt, in.Jf, in.K)
}

func (f Filter) branch(i int, in Insn, op string) string {
	return fmt.Sprintf("if   %s %d (%#x) then %d else %d", op, in.K, in.K, i+1+int(in.Jt), i+1+int(in.Jf))
}

func wordName(off uint32) string {
	switch {
	case off == offNr:
		return "nr"
	case off == offArch:
		return "arch"
	case off < offArgs:
		return fmt.Sprintf("ip+%d", off-8)
	case off%8 == 4:
		return fmt.Sprintf("arg%d.high", (off-offArgs)/8)
	}
	return fmt.Sprintf("arg%d.low", (off-offArgs)/8)
}
