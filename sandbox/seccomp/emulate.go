package seccomp

import "fmt"

// Data is struct seccomp_data: what a filter sees of a call.
type Data struct {
	Nr   uint32
	Arch uint32 // AUDIT_ARCH_*
	IP   uint64
	Args [6]uint64
}

// Call returns the Data of call nr made through a's own entry.
func (a Arch) Call(nr uint32, args ...uint64) Data {
	d := Data{Nr: nr, Arch: a.audit()}
	copy(d.Args[:], args)
	return d
}

func (d *Data) word(off uint32) (uint32, bool) {
	half := func(v uint64) uint32 {
		if off%8 == 4 {
			return uint32(v >> 32)
		}
		return uint32(v)
	}
	switch {
	case off%4 != 0 || off >= offArgs+8*6:
		return 0, false
	case off == offNr:
		return d.Nr, true
	case off == offArch:
		return d.Arch, true
	case off < offArgs:
		return half(d.IP), true
	}
	return half(d.Args[(off-offArgs)/8]), true
}

// Run does what the kernel would do with the filter and this call. An error means that the kernel would
// refuse to load the filter; the action is then KillProcess.
func (f Filter) Run(d Data) (Action, error) {
	var acc uint32
	for pc := 0; pc < len(f); pc++ {
		in := f[pc]
		taken := false
		switch in.Code {
		case opRet:
			return Action(in.K), nil
		case opLoad:
			w, ok := d.word(in.K)
			if !ok {
				return KillProcess, fmt.Errorf("seccomp: instruction %d loads from offset %d", pc, in.K)
			}
			acc = w
			continue
		case opAnd:
			acc &= in.K
			continue
		case opJa:
			if uint64(in.K) >= uint64(len(f)) {
				return KillProcess, fmt.Errorf("seccomp: instruction %d jumps out of the filter", pc)
			}
			pc += int(in.K)
			continue
		case opJeq:
			taken = acc == in.K
		case opJge:
			taken = acc >= in.K
		case opJset:
			taken = acc&in.K != 0
		default:
			return KillProcess, fmt.Errorf("seccomp: instruction %d has unknown code %#x", pc, in.Code)
		}
		if taken {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	return KillProcess, fmt.Errorf("seccomp: the filter of %d instructions ends without a return", len(f))
}
