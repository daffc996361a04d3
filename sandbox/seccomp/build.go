package seccomp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Spec says which policy to compile. The zero value of every field but Arch is the closed one.
type Spec struct {
	Arch      Arch
	Strict    bool     // also closes metadata changes, ptrace, inotify, SysV IPC, legacy AIO
	Additions []string // groups of Additions() opened in the default policy
	AllowInet bool     // AF_INET and AF_INET6, stream and datagram
	SysVIPC   bool     // SysV IPC and POSIX queues: only with an IPC namespace of the run's own; Strict closes them all the same
	OwnPidNS  bool     // the run has its own pid namespace, so that a pid names nobody else
}

// Additions returns the names that Spec.Additions may have.
func Additions() []string { return []string{additionKeyring, additionPerf, additionUserfaultfd} }

const (
	additionKeyring     = "keyring"
	additionPerf        = "perf"
	additionUserfaultfd = "userfaultfd"
)

// Build compiles the policy. It is pure, and the same Spec gives the same filter.
func Build(s Spec) (Filter, error) {
	names := s.Arch.names()
	if names == nil {
		return nil, fmt.Errorf("seccomp: no system-call table for %v; there are tables for amd64 and arm64", s.Arch)
	}
	for _, a := range s.Additions {
		if !slices.Contains(Additions(), a) {
			return nil, fmt.Errorf("seccomp: unknown addition %q; allowed: %s", a, strings.Join(Additions(), ", "))
		}
	}
	if s.Strict && len(s.Additions) > 0 {
		return nil, errors.New("seccomp: strict takes no additions")
	}
	b := &builder{Spec: s, graph: new(graph)}
	kill := b.ret(KillProcess)
	all := spans(b.decide(names), b.absent())
	if s.Arch == AMD64 {
		// x32 calls carry bit 30 and share amd64's AUDIT_ARCH. Negative numbers (syscall(-1)) are no call at all.
		all = append(all, span{start: 1 << 30, to: kill}, span{start: 1 << 31, to: b.absent()})
	}
	root := b.load(offNr, tree(all))
	root = b.load(offArch, b.jump(opJeq, s.Arch.audit(), root, kill))
	return assemble(root)
}

// builder is one Build.
type builder struct {
	Spec
	*graph
}

func (b *builder) allow() *node  { return b.ret(Allow) }
func (b *builder) refuse() *node { return b.ret(Refuse) }
func (b *builder) absent() *node { return b.ret(Absent) }

// decide returns the node of each number. What no rule names is absent.
func (b *builder) decide(names []string) []*node {
	nr := newIndex(names)
	to := slices.Repeat([]*node{b.absent()}, len(names))
	for _, r := range rules {
		then := r.usual
		if b.Strict && r.strict != nil {
			then = r.strict
		}
		var n *node
		for _, name := range r.names {
			if i, ok := nr.number(name); ok {
				if n == nil {
					n = then(b)
				}
				to[i] = n
			}
		}
	}
	return to
}
