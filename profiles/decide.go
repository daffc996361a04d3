package profiles

import "net/netip"

// Op is what a process tries.
type Op uint8

const (
	OpRead Op = iota
	OpWrite
	OpExec
	OpCreate
	OpRemove
	OpRename
	OpLink
	OpMetadata
	OpStat
	OpUnix
	OpConnect
	OpSend
	OpBind
	OpListen
)

var opNames = [...]string{"read", "write", "exec", "create", "remove", "rename", "link", "metadata", "stat", "unix", "connect", "send", "bind", "listen"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown"
}

// Object is what an operation is tried on. Paths are physical: absolute, with
// no symbolic link on the way.
type Object struct {
	Path string
	To   string // the new name, for rename and link
	Host string // a name of the allow list; with Addr set only for messages
	Addr netip.Addr
	Port uint16
	// Proto is tcp or udp; empty means tcp.
	Proto string
	// Own says that a loopback destination is a server of the run itself.
	Own bool
}

// Decision is what our policy says, and why. The zero value denies.
type Decision struct {
	Allow bool
	// Gate: the profile lets the destination through to the gate, which decides
	// on each request; Allow is then false.
	Gate   bool
	Rule   string   // id of the deciding rule, or "default"
	Steps  []Step   // in the order in which they were taken
	Change []string // the smallest line or flag that would change it; may be empty
}

// Step is one question on the way to a decision.
type Step struct {
	Step   string
	Result string
	Rule   string
}

func (d *Decision) step(step, result, rule string) {
	d.Steps = append(d.Steps, Step{step, result, rule})
}

func (d *Decision) deny(step, result, rule string, change ...string) Decision {
	d.step(step, result, rule)
	d.Allow, d.Rule, d.Change = false, rule, change
	return *d
}

func (d *Decision) allow(step, result, rule string, change ...string) Decision {
	d.step(step, result, rule)
	d.Allow, d.Rule, d.Change = true, rule, change
	return *d
}

// Decide says what a run is allowed to do. It looks at names only: the caller
// resolves symbolic links, and file permissions of the host come on top.
func (s *Sealed) Decide(op Op, o Object) Decision {
	switch op {
	case OpConnect, OpSend, OpBind, OpListen:
		return s.decideNet(op, o)
	case OpRead, OpWrite, OpExec, OpCreate, OpRemove, OpRename, OpLink, OpMetadata, OpStat, OpUnix:
		return s.decideFile(op, o)
	}
	var d Decision
	return d.deny("operation", "unknown", byDefault)
}
