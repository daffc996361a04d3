//go:build linux

package slot

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/containerd/cgroups/v3/cgroup2"
)

// Usage is what a run has used so far. −1 means that this host cannot say.
type Usage struct {
	CPUMillis  int64 // user and system time of all processes
	MemoryPeak int64 // bytes
	PidsPeak   int64 // tasks
}

// A record is Usage and Cause, each with its error.
type record struct {
	usage    Usage
	usageErr error
	cause    string
	causeErr error
}

func (s *Slot) record() (r record) {
	r.usage, r.usageErr = s.readUsage()
	r.cause, r.causeErr = s.readCause()
	return r
}

// Usage reads the counters. After Close it answers what they said last.
func (s *Slot) Usage() (Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final != nil {
		return s.final.usage, s.final.usageErr
	}
	return s.readUsage()
}

// Cause names the limit that the run ran into: "memory" if a process was killed at the limit, "pids" if a fork was refused, ""
// if neither. Only limits that were set are looked at. It comes from the kernel's counters: the main program may well exit with 0
// after the kernel killed one of its children. After Close it answers what they said last.
func (s *Slot) Cause() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final != nil {
		return s.final.cause, s.final.causeErr
	}
	return s.readCause()
}

func (s *Slot) readUsage() (Usage, error) {
	u := Usage{CPUMillis: -1, MemoryPeak: -1, PidsPeak: -1}
	// cpu.stat is in every v2 cgroup, with or without the controller.
	st, err := s.m2.StatFiltered(cgroup2.StatCPU | cgroup2.StatMemory)
	if err != nil {
		return u, fmt.Errorf("reading counters of slot %q: %w", s.id, err)
	}
	if exists(s.dir, "cpu.stat") {
		u.CPUMillis = int64(st.CPU.UsageUsec / 1000)
	}
	if exists(s.dir, "memory.peak") { // since 5.19
		u.MemoryPeak = int64(st.Memory.MaxUsage)
	}
	if _, ok := s.v1["memory"]; ok {
		st, err := s.m1.Stat()
		if err != nil {
			return u, fmt.Errorf("reading counters of slot %q: %w", s.id, err)
		}
		u.MemoryPeak = int64(st.Memory.Usage.Max)
	}
	if text, err := read(filepath.Join(s.dirOf("pids"), "pids.peak")); err == nil { // since 6.9; the library does not know it
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			u.PidsPeak = n
		}
	}
	return u, nil
}

func (s *Slot) readCause() (string, error) {
	if s.limits.MemoryBytes > 0 {
		hit, err := s.memoryHit()
		if err != nil || hit {
			return cause("memory", hit), err
		}
	}
	if s.limits.Pids > 0 {
		hit, err := s.pidsHit()
		if err != nil || hit {
			return cause("pids", hit), err
		}
	}
	return "", nil
}

func cause(name string, hit bool) string {
	if hit {
		return name
	}
	return ""
}

// memoryHit wants a kill and a hit of the limit: a kill alone may be the host's own lack of memory.
func (s *Slot) memoryHit() (bool, error) {
	if s.v1["memory"] == "" {
		st, err := s.m2.StatFiltered(cgroup2.StatMemoryEvents)
		if err != nil {
			return false, fmt.Errorf("reading memory.events of slot %q: %w", s.id, err)
		}
		if st.MemoryEvents == nil {
			return false, fmt.Errorf("reading memory.events of slot %q: %w", s.id, fs.ErrNotExist)
		}
		return st.MemoryEvents.OomKill > 0 && st.MemoryEvents.Max > 0, nil
	}
	// A kill is counted in the victim's cgroup only.
	kills, err := s.sum("memory", "memory.oom_control", "oom_kill")
	if err != nil || kills == 0 {
		return false, err
	}
	st, err := s.m1.Stat()
	if err != nil {
		return false, fmt.Errorf("reading memory counters of slot %q: %w", s.id, err)
	}
	// v1 charges memory plus swap first, so its counter is the one that moves. Some kernels (6.18 seen) no longer count failures;
	// there a peak within one huge page of the limit tells.
	m, w := st.Memory.Usage, st.Memory.Swap
	return m.Failcnt+w.Failcnt > 0 || int64(max(m.Max, w.Max)) > s.limits.MemoryBytes-hugePage, nil
}

const hugePage = 2 << 20

// pidsHit adds up cgroups made inside the run too: up to 6.10, and on v1, a refused fork counts where it was tried.
func (s *Slot) pidsHit() (bool, error) {
	n, err := s.sum("pids", "pids.events", "max")
	return n > 0, err
}

// dirOf returns the slot's directory for a controller, wherever it is.
func (s *Slot) dirOf(controller string) string {
	if d, ok := s.v1[controller]; ok {
		return d
	}
	return s.dir
}

// sum adds up one key of a file over the slot's directory and all below it.
func (s *Slot) sum(controller, file, key string) (int64, error) {
	var total int64
	root := s.dirOf(controller)
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == file {
			var text string
			if text, err = read(p); err == nil {
				total += parseFlat(text)[key]
			}
		}
		if err != nil && gone(err) && p != root && filepath.Dir(p) != root {
			return nil // a cgroup that the run removed meanwhile
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reading %s of slot %q: %w", file, s.id, err)
	}
	return total, nil
}
