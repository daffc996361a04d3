// Package engine gives runs what costs time to link: a cgroup slot each, and the
// egress programs at the slots' parent. It is linked by lockbox-runner, not by
// the thin command.
//
//	receipt, err := run.Supervise(ctx, engine.New(runner.RunDir()))
//
// Cgroups need cgroup v2, alone or beside v1 controllers (see package slot); the
// egress programs need root (see package egress).
//
// # What it does not restrict
//
// Everything that a cgroup does not see: files, Unix sockets without
// connect_unix (before 6.7), other address families. Package sandbox closes them.
package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"lockbox/profiles"
	"lockbox/runner"
	"lockbox/runner/egress"
	"lockbox/runner/slot"
)

// Engine implements runner.Engine.
type Engine struct {
	dir string // run directory: locks, and the pinned programs in bpf/

	once sync.Once
	tree *slot.Tree
	err  error
}

// New returns an engine that keeps its locks and pins in dir. Nothing is touched
// until a run needs it.
func New(dir string) *Engine { return &Engine{dir: dir} }

func (e *Engine) find() (*slot.Tree, error) {
	e.once.Do(func() { e.tree, e.err = slot.Find(e.dir) })
	return e.tree, e.err
}

// bpfDir is where the programs are pinned, once per boot. It belongs to the host,
// as the cgroup that they are attached to does: two sets would deny each other's
// runs.
func (e *Engine) bpfDir() string { return "/run/lockbox/bpf" }

// Sweep removes the cgroups of supervisors that are gone.
func (e *Engine) Sweep() ([]string, error) {
	t, err := e.find()
	if err != nil {
		return nil, err
	}
	parent, err := t.Parent()
	if err != nil {
		return nil, err
	}
	swept, err := t.Sweep()
	return append(swept, sweepProbes(parent)...), err
}

// sweepProbes removes the scratch cgroups of those who were killed while they
// proved the egress programs. A live one holds a process, so it stays.
func sweepProbes(parent string) []string {
	var swept []string
	dirs, _ := filepath.Glob(filepath.Join(parent, probePrefix+"*"))
	for _, d := range dirs {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(d), probePrefix))
		if err == nil && unix.Kill(pid, 0) == unix.ESRCH && unix.Rmdir(d) == nil {
			swept = append(swept, filepath.Base(d))
		}
	}
	return swept
}

// probePrefix and the prober's process id name the scratch cgroup of package
// egress.
const probePrefix = "egress-probe-"

// Hold makes the cgroup of one run, and its egress entry where asked.
func (e *Engine) Hold(id string, l profiles.Limits, want *runner.Egress) (runner.Hold, error) {
	t, err := e.find()
	if err != nil {
		return nil, err
	}
	s, err := t.New(id, slot.Limits{MemoryBytes: l.Memory, Pids: l.Pids, CPU: l.CPU})
	if err != nil {
		return nil, err
	}
	h := &hold{slot: s}
	for _, c := range []struct {
		name string
		set  bool
	}{{"memory", l.Memory != 0}, {"pids", l.Pids != 0}, {"cpu", l.CPU != 0}} {
		if by, err := t.Supports(c.name); c.set && err == nil {
			h.by = append(h.by, by)
		}
	}
	if want == nil {
		if want, err = e.besideEgress(t); err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	if want == nil {
		h.late = e.bpfDir()
		return h, nil
	}
	if err := h.openEgress(t, e.bpfDir(), want); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *hold) openEgress(t *slot.Tree, dir string, want *runner.Egress) error {
	parent, err := t.Parent()
	if err != nil {
		return err
	}
	set, err := egress.Open(parent, dir)
	if err != nil {
		return fmt.Errorf("egress programs: %w", err)
	}
	h.set = set
	h.seen, h.ignore, h.ignored = map[denialKey]*runner.Denial{}, map[string]int{}, map[string]uint64{}
	for _, c := range want.Canaries {
		h.ignore[c]++
	}
	// Two that make one entry at once would take each other's away.
	entering, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("egress programs: %w", err)
	}
	defer entering.Close()
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(entering.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("egress programs: flock %q: %w", dir, err)
	}
	if _, err := set.Sweep(); err != nil {
		return fmt.Errorf("egress programs: remove entries of ended runs: %w", err)
	}
	if err := adopt(parent, set, h.slot.ID()); err != nil {
		return fmt.Errorf("egress programs: %w", err)
	}
	if err := replace(set, h.slot.ID(), policy(want, set)); err != nil {
		return fmt.Errorf("egress entry: %w", err)
	}
	entering.Close()
	h.events, err = set.Watch(h.slot.ID(), ringSize)
	if err != nil {
		return fmt.Errorf("egress events: %w", err)
	}
	h.collect()
	return nil
}
