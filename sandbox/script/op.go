package script

import "syscall"

// Reg names a value that a step leaves for later steps, usually a descriptor.
// The zero Reg is "none".
type Reg uint16

// expectation says which outcome of a step lets the script go on.
type expectation uint8

const (
	mustSucceed expectation = iota // zero value: any error stops the script
	mustFail                       // only the wanted errnos let it go on (a canary)
	mustReturn                     // the result must equal the wanted value
	mayFail                        // any outcome goes on
)

// maxWant bounds the errnos that one canary accepts.
const maxWant = 4

// op is one step as the child executes it: a system call number, six arguments
// that are literals or registers, where the result goes and what is expected.
// A pseudo call (nr == opStore) writes a register into memory instead, for
// structures that carry a descriptor.
type op struct {
	nr   uintptr
	args [6]uintptr
	regs [6]Reg // non-zero: the argument is that register's value
	out  Reg
	want [maxWant]uint16 // errnos
	exp  expectation
	res  uintptr // mustReturn's value
	mem  *int32  // opStore's target
}

// opStore is a pseudo system call: *mem = the value of regs[1].
const opStore = ^uintptr(0)

// Step describes one step of a script for people: the plan's text and a
// failure's message come from it.
type Step struct {
	Call string // the system call's name: "mount_setattr"
	What string // what it does to what: "/usr: read-only, nosuid, nodev"
}

// StepError reports the step of a script that did not do what it had to.
type StepError struct {
	Index int  // 0 for the first step
	Step  Step // what was tried
	Errno syscall.Errno
	// Canary is set when a step that had to be denied was allowed (Errno 0) or
	// failed for another reason than the layer under test (Errno says which).
	Canary bool
}

func (e *StepError) Error() string {
	if e.Canary {
		if e.Errno == 0 {
			return e.Step.Call + " " + e.Step.What + ": was allowed and must be denied; the sandbox does not hold on this host"
		}
		return e.Step.Call + " " + e.Step.What + ": denied for another reason than expected: " + e.Errno.Error()
	}
	return e.Step.Call + " " + e.Step.What + ": " + e.Errno.Error()
}

func (e *StepError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}
