/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What both objects share: the entry of a run, its counters, its events. The unix object gets these maps from the
 * main one at load. */
#ifndef LOCKBOX_RUN_H
#define LOCKBOX_RUN_H
#include "bpf.h"

#define MAX_RUNS 4096
#define MAX_LISTEN 32
#define PATH_MAX_UNIX 108

/* Return values of cgroup programs. Refused is EPERM for the caller. */
enum { VERDICT_REFUSE = 0, VERDICT_PROCEED = 1 };

/* The order is the wire order: names.go lists the same. */
enum hook {
	HOOK_NONE,
	HOOK_SOCKET,
	HOOK_BIND4,
	HOOK_BIND6,
	HOOK_CONNECT4,
	HOOK_CONNECT6,
	HOOK_SENDMSG4,
	HOOK_SENDMSG6,
	HOOK_EGRESS,
	HOOK_CONNECT_UNIX,
	HOOK_SENDMSG_UNIX,
	HOOKS,
};

enum reason {
	REASON_ALLOWED,
	REASON_NO_ENTRY, /* the cgroup has no entry */
	REASON_NO_RULE,	 /* no rule of the run names the destination */
	REASON_BUILTIN,	 /* a built-in denial is narrower than the run's rule */
	REASON_SOCKET,	 /* not a TCP or UDP socket */
	REASON_LOOPBACK, /* the listener is not the run's, or there is none */
	REASON_LISTEN,	 /* the port to bind is not in the run's listen list */
	REASON_PACKET,	 /* a packet that the floor cannot judge: options, extension header, fragment, other protocol */
	REASON_UNIX,	 /* the socket path is not in the run's list */
	REASONS = 16,	 /* a power of two, for the verifier */
};

enum { RUN_OWN_NET = 1, RUN_UNIX_ANY = 2 };

struct run {
	__u32 flags;
	__u32 nlisten;
	__be16 listen[MAX_LISTEN];
};

struct counters {
	__u64 n[HOOKS][REASONS];
	__u64 lost; /* events that found the ring full */
};

struct event {
	__u64 time; /* ns, CLOCK_BOOTTIME */
	__u64 run;  /* cgroup id */
	__u32 pid;  /* thread group in the first pid namespace; 0 at egress */
	__u32 uid;
	__u8 hook;
	__u8 reason;
	__u8 proto;
	__u8 family; /* 4 or 6; 1 unix */
	__be16 port;
	__u8 class; /* of a built-in denial, the loader's number */
	__u8 type;  /* socket type, for HOOK_SOCKET */
	__u8 addr[16];
	char comm[16];
};

struct unix_event {
	struct event e;
	char path[PATH_MAX_UNIX];
	__u32 pathlen;
};

/* Absolute depth of the runs' cgroups. 0 until the loader sets it: then nothing has an entry. */
const volatile __u32 run_level = 0;

/* cgroup id → the run. No entry, no network. Never an LRU: an evicted entry would be a denial nobody asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_RUNS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct run);
} runs SEC(".maps");

/* cgroup id → counters. Made with the run, so that counting can never fail. Key 0 counts for cgroups without an entry. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MAX_RUNS + 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct counters);
} counts SEC(".maps");

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
};

/* cgroup id → ring of the run's denials, where somebody wants them. One ring a run: a ring has one reader, and a reader
 * must not see other runs. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, MAX_RUNS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__array(values, struct ring);
} rings SEC(".maps");

__inline __u64 current_run(void)
{
	return run_level ? bpf_get_current_ancestor_cgroup_id(run_level) : 0;
}

/* count adds one refusal. Atomic: on one CPU a softirq, or another task, may interrupt the addition. */
__inline struct counters *count(__u64 id, __u32 hook, __u32 reason)
{
	__u64 none = 0;
	struct counters *c = bpf_map_lookup_elem(&counts, &id);

	if (!c)
		c = bpf_map_lookup_elem(&counts, &none);
	if (c)
		__sync_fetch_and_add(&c->n[hook][reason & (REASONS - 1)], 1);
	return c;
}

__inline void fill(struct event *e, __u64 id, __u32 hook, __u32 reason)
{
	__builtin_memset(e, 0, sizeof(*e));
	e->time = bpf_ktime_get_boot_ns();
	e->run = id;
	e->hook = hook;
	e->reason = reason;
}

__inline void fill_task(struct event *e)
{
	e->pid = bpf_get_current_pid_tgid() >> 32;
	e->uid = bpf_get_current_uid_gid();
	bpf_get_current_comm(e->comm, sizeof(e->comm));
}

#endif
