// Package slot gives a run its cgroup: limits, one handle that ends every descendant, and counters that say why a run died.
//
//	tree, err := slot.Find("/run/lockbox")
//	left, err := tree.Sweep()                          // what a killed owner left behind
//	s, err := tree.New(runID, slot.Limits{MemoryBytes: 64 << 20, Pids: 100})
//	defer s.Close()
//	// clone3(CLONE_INTO_CGROUP, s.FD()); the child writes "0" to each of s.TaskFDs()
//	cause, err := s.Cause()                            // "memory", "pids" or ""
//
// The cgroup version 2 hierarchy is found in /proc/self/mountinfo, never by a fixed path. It always carries the run (identity,
// kill, CPU time). Each limit comes from cgroup v2 where the controller is there, else from the v1 hierarchy that owns it
// (hybrid hosts). A host with v1 only is refused.
//
//	PLACE/lockbox-runs/ID            v2: every run, so that programs attached at lockbox-runs hold all of them
//	PLACE1/lockbox-runs/ID           v1, hybrid hosts only: memory, pids, and cpu if it is limited
//	RUNDIR/slots/ID.lock             flock held by the owner for as long as the slot lives; lists the directories
//
// PLACE is the top-most ancestor of lockbox's own cgroup in which lockbox may make cgroups and move processes: the mount's root
// for root, the delegated subtree (user@UID.service, or a unit with Delegate=yes) for anybody else.
//
// Needs Linux 5.7 for CLONE_INTO_CGROUP; cgroup.kill (5.14) and memory.peak (5.19) are used where they exist.
//
// # What it does not restrict
//
//   - Limits set on lockbox's own cgroup do not hold for runs whose PLACE is above it, as with any container engine.
//   - On v1 hosts the OOM killer ends one process, not the run: ask Cause, do not trust the exit status.
//   - Page cache counts as memory, and is reclaimed before anything is killed.
//   - A process that can write to cgroupfs as root can leave its cgroup: hiding cgroupfs and closing clone3 is the sandbox's work.
package slot
