package engine

import (
	"errors"
	"os"

	"lockbox/runner"
	"lockbox/runner/egress"
	"lockbox/runner/slot"
	"lockbox/sandbox"
)

// Doctor proves every layer: those of the child, the cgroup limits by making a
// slot with each, and the egress programs by their own denied probe.
func (e *Engine) Doctor() ([]sandbox.Feature, error) {
	out, err := runner.Doctor()
	if err != nil {
		return out, err
	}
	t, err := e.find()
	if err != nil {
		return append(out, failed("cgroup", err)), nil
	}
	limits := []struct {
		name string
		l    slot.Limits
	}{{"memory", slot.Limits{MemoryBytes: 64 << 20}}, {"pids", slot.Limits{Pids: 64}}, {"cpu", slot.Limits{CPU: 0.5}}}
	for _, c := range limits {
		out = append(out, prove(t, c.name, c.l))
	}
	return append(out, e.proveEgress(t)), nil
}

func prove(t *slot.Tree, name string, l slot.Limits) sandbox.Feature {
	id, err := runner.NewID()
	if err != nil {
		return failed(name, err)
	}
	s, err := t.New("doctor-"+id, l)
	if err != nil {
		return failed(name, err)
	}
	by, err := t.Supports(name)
	if err := errors.Join(err, s.Close()); err != nil {
		return failed(name, err)
	}
	return sandbox.Feature{Feature: name, OK: true, By: by, Proof: "a slot with this limit was made, and removed again"}
}

func (e *Engine) proveEgress(t *slot.Tree) sandbox.Feature {
	if os.Geteuid() != 0 {
		return sandbox.Feature{Feature: "net direct", By: "cgroup programs", Proof: "an ordinary user may not load them", Fix: "run as root: sudo lockbox doctor"}
	}
	parent, err := t.Parent()
	if err != nil {
		return failed("net direct", err)
	}
	set, err := egress.Open(parent, e.bpfDir())
	if err != nil {
		return failed("net direct", err)
	}
	f := sandbox.Feature{Feature: "net direct", OK: true, By: "cgroup programs", Proof: "a process without an entry was refused (EPERM), one with an entry was not"}
	if err := set.Unix(); err != nil {
		f.Proof += "; Unix sockets by path: " + err.Error()
	}
	if err := set.Close(); err != nil {
		return failed("net direct", err)
	}
	return f
}

func failed(feature string, err error) sandbox.Feature {
	f := sandbox.Feature{Feature: feature, Proof: err.Error()}
	var lacks *slot.UnsupportedError
	if errors.As(err, &lacks) {
		f.Fix = lacks.Hint
	}
	return f
}

// RemovePinned takes the pinned programs and the empty parents away, and says
// what it took.
func (e *Engine) RemovePinned() ([]string, error) {
	t, err := e.find()
	if err != nil {
		return nil, err
	}
	parent, err := t.Parent()
	if err != nil {
		return nil, err
	}
	var out []string
	if os.Geteuid() == 0 {
		_, serr := os.Stat(e.bpfDir())
		if err := egress.RemovePinned(parent, e.bpfDir()); err != nil {
			return nil, err
		}
		if serr == nil {
			out = append(out, e.bpfDir())
		}
	}
	if err := t.RemoveParent(); err != nil {
		return out, err
	}
	return append(out, parent), nil
}
