package egress

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// A Level finds out how deep a cgroup is. A cgroup namespace hides the depth from /proc, and the programs need it.
type Level struct {
	m    *ebpf.Map
	prog *ebpf.Program
	link link.Link
}

// NewLevel watches the cgroup dir, whose id is given, until a task in it makes an inet socket.
func NewLevel(dir string, id uint64) (_ *Level, err error) {
	l := &Level{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("watch the depth of %q: %w", dir, err), l.Close())
		}
	}()
	spec, err := loadLevel()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables["target"].Set(id); err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	l.m, l.prog = coll.DetachMap("level"), coll.DetachProgram("level_socket")
	l.link, err = link.AttachCgroup(link.CgroupOptions{Path: dir, Attach: ebpf.AttachCGroupInetSockCreate, Program: l.prog})
	return l, err
}

// Depth returns the level. The root is 0, which is also the answer that is refused: nothing was seen.
func (l *Level) Depth() (int, error) {
	var n uint32
	if err := l.m.Lookup(uint32(0), &n); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, errors.New("no task was seen in the cgroup, or it is deeper than 63 levels")
	}
	return int(n), nil
}

// Close detaches the program.
func (l *Level) Close() error {
	var errs []error
	if l.link != nil {
		errs = append(errs, l.link.Close())
	}
	if l.prog != nil {
		errs = append(errs, l.prog.Close())
	}
	if l.m != nil {
		errs = append(errs, l.m.Close())
	}
	return errors.Join(errs...)
}
