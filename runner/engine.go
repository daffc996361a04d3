package runner

import (
	"net/netip"

	"lockbox/profiles"
)

// Engine gives a run what the thin command cannot: a cgroup of its own, and the
// egress programs on it.
type Engine interface {
	// Resolve looks up the host names of the profile's allow list, once.
	Resolve(s *profiles.Sealed) (map[string][]netip.Addr, error)
	// Hold makes the run's cgroup with its limits and, where egress is not nil,
	// its entry in the egress programs. No process is in it yet.
	Hold(id string, l profiles.Limits, egress *Egress) (Hold, error)
	// Sweep removes what supervisors that were killed left behind, and says what.
	Sweep() ([]string, error)
}

// Egress is what a run may reach.
type Egress struct {
	Rules    []profiles.EgressRule
	Listen   []uint16
	Unix     []string // named sockets
	Writable []string // directories in which the run may make sockets
	// Canaries are the targets that the start itself tries, once each: they are
	// not the command's denials.
	Canaries []string
	// OwnNamespace: a network namespace of its own holds the run, the programs
	// stand beside it.
	OwnNamespace bool
}

// Hold is the cgroup of one run.
type Hold interface {
	FD() int        // directory descriptor (cgroup v2)
	TaskFDs() []int // v1 tasks files that the child joins
	// Moves: the child cannot be started in the cgroup; Adopt moves it there
	// before it takes its first step.
	Moves() bool
	Adopt(pidfd, pid int) error
	// Finish hands the run's receipt to whoever keeps it.
	Finish(*Receipt) error
	Kill() error // every process of the run
	// Counted returns what the kernel counted, while the cgroup still exists.
	Counted() (Counted, error)
	Close() error // removes everything of the run; idempotent
	By() string   // the mechanisms, for the receipt
}

// Counted is what the kernel counted for a run.
type Counted struct {
	Cause    string // the limit that was reached: "memory" or "pids"; "killed" if somebody asked the holder to end it; or ""
	CPUms    int64  // −1: not known
	MaxRSS   int64  // bytes; −1: not known
	PidsPeak int64  // −1: not known
	Denials  []Denial
	Lost     uint64 // deny events that could not be sent
	Egress   bool   // the egress programs held the run, so its network denials are counted
}
