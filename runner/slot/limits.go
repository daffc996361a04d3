//go:build linux

package slot

import (
	"fmt"
	"math"

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// Limits of one run. Zero means unset.
type Limits struct {
	MemoryBytes int64   // of all processes together, swap included
	Pids        int64   // tasks: processes and threads
	CPU         float64 // processors: 0.5 is half of one
}

// cpuPeriod is the kernel's default, in microseconds. A quota below minQuota is refused by the kernel (tg_set_cfs_bandwidth).
const (
	cpuPeriod = 100_000
	minQuota  = 1_000
)

func (l Limits) check() error {
	switch {
	case l.MemoryBytes < 0:
		return fmt.Errorf("memory limit %d: want a positive number of bytes", l.MemoryBytes)
	case l.Pids < 0:
		return fmt.Errorf("pids limit %d: want a positive number", l.Pids)
	case l.CPU != 0 && !(l.CPU*cpuPeriod >= minQuota && l.CPU <= 1<<20): // also refuses NaN and infinities
		return fmt.Errorf("cpu limit %v: want a number of processors from %v to %d", l.CPU, float64(minQuota)/cpuPeriod, 1<<20)
	}
	return nil
}

// asked lists the controllers that l needs.
func (l Limits) asked() (out []string) {
	for _, x := range []struct {
		set  bool
		name string
	}{{l.MemoryBytes > 0, "memory"}, {l.Pids > 0, "pids"}, {l.CPU > 0, "cpu"}} {
		if x.set {
			out = append(out, x.name)
		}
	}
	return out
}

func (l Limits) quota() int64 { return int64(math.Round(l.CPU * cpuPeriod)) }

// v2 returns the resources that the v2 controllers in has carry.
func (l Limits) v2(has func(string) bool, swap bool) *cgroup2.Resources {
	r := &cgroup2.Resources{}
	if l.MemoryBytes > 0 && has("memory") {
		// With oom.group the kernel ends the whole run, not one child of it (since 4.19).
		zero, group := int64(0), true
		r.Memory = &cgroup2.Memory{Max: &l.MemoryBytes, OOMGroup: &group}
		if swap {
			r.Memory.Swap = &zero
		}
	}
	if l.Pids > 0 && has("pids") {
		r.Pids = &cgroup2.Pids{Max: l.Pids}
	}
	if l.CPU > 0 && has("cpu") {
		q, p := l.quota(), uint64(cpuPeriod)
		r.CPU = &cgroup2.CPU{Max: cgroup2.NewCPUMax(&q, &p)}
	}
	return r
}

// v1 returns the resources for the v1 controllers; each of them reads only its own part.
func (l Limits) v1(swap bool) *specs.LinuxResources {
	r := &specs.LinuxResources{}
	if l.MemoryBytes > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.MemoryBytes}
		if swap {
			r.Memory.Swap = &l.MemoryBytes // memsw counts memory and swap together
		}
	}
	if l.Pids > 0 {
		r.Pids = &specs.LinuxPids{Limit: &l.Pids}
	}
	if l.CPU > 0 {
		q, p := l.quota(), uint64(cpuPeriod)
		r.CPU = &specs.LinuxCPU{Quota: &q, Period: &p}
	}
	return r
}
