// Package egress holds the network of runs: one set of BPF programs on the parent of all run cgroups, pinned once per boot in a
// bpffs of lockbox's own, and one entry a run.
//
//	set, err := egress.Open("/sys/fs/cgroup/lockbox-runs", "/run/lockbox/bpf")
//	defer set.Close()                                   // the programs stay
//	err = set.Add(slot.ID(), egress.Policy{Rules: []egress.Rule{{Prefix: p, Port: 443, Proto: egress.TCP}}})
//	// start the command in the cgroup; wait; end what is left in it
//	counts, err := set.Counters(slot.ID())
//	err = set.Remove(slot.ID())
//
// A cgroup below the parent without an entry can make no inet socket. So the order is: cgroup, Add, start; and at the end: kill,
// Counters, Remove, rmdir. A step that is missed leaves a run without network, never one without policy. Bytes that the kernel still
// holds for a socket when Remove comes are not sent.
//
// Needs root, a writable cgroup version 2 hierarchy and Linux 6.1; Policy.Unix needs 6.7.
//
// # What it does not restrict
//
// See lockbox/bpf/egress. Sockets made outside the run and handed in are not seen, nor are families other than AF_INET and AF_INET6
// (and AF_UNIX by address); a run must reach neither cgroupfs nor the bpffs. A process with CAP_BPF or CAP_SYS_ADMIN can undo everything.
package egress
