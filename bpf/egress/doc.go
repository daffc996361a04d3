// Package egress holds the BPF programs that decide what a run may send, and fills their maps.
//
// One set of programs is attached to the parent of all runs. A run is a cgroup right below it; its policy is found by the id of
// that cgroup, also from cgroups that the run makes inside its own.
//
//	set, err := egress.Load(level)
//	err = set.Attach(parent)
//	err = set.Add(cgroupID, egress.Entry{Rules: []egress.Rule{{Prefix: p, Port: 443, Proto: egress.TCP}}})
//
// A cgroup without an entry may not make an inet socket, connect, bind or send: EPERM. Addresses
// that the caller lists are denied unless a rule of the run is at least as narrow. On loopback a run reaches the servers that it started
// itself and no other; no rule changes that.
//
// Needs Linux 6.1 and root; paths of Unix sockets need 6.7.
//
// # What it does not restrict
//
// Hooks and packets go by the socket's cgroup: a socket that was made outside the parent and handed in is not seen. AF_PACKET, AF_VSOCK,
// AF_NETLINK, AF_XDP and AF_ALG sockets have no cgroup hook. Both are seccomp's and the caller's business (no inherited sockets). Packets that come in are
// not filtered; only what answers them is. A process that may write cgroup.procs of a cgroup outside leaves its policy.
// A server that listens without binding first is not reachable for its own run. SYN and RST that the kernel sends without a socket are not the run's.
package egress
