//go:build ignore
/* SPDX-License-Identifier: Dual MIT/GPL */
/* Which Unix sockets a run may reach by address (Linux 6.7). The address is the caller's string: a rule is exact, or a
 * directory that the loader vouches for. */
#include "run.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* LPM: prefixlen counts the bits from `run` on. An exact path includes its NUL, a directory ends in a slash. */
struct path_key {
	__u32 prefixlen;
	__u64 run;
	char path[PATH_MAX_UNIX];
} __packed;

enum { PATH_EXACT = 1, PATH_BELOW = 2 };

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct path_key);
	__type(value, __u32);
} paths SEC(".maps");

/* Not UAPI: relocated. */
struct bpf_sock_addr_kern {
	void *uaddr;
	__u32 uaddrlen;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* climbs: the path has a component "..". */
__inline int climbs(const char *path)
{
	for (int i = 0; i + 2 < PATH_MAX_UNIX; i++) {
		if (path[i] == 0)
			return 0;
		if (path[i] == '/' && path[i + 1] == '.' && path[i + 2] == '.')
			return 1;
	}
	return 0;
}

__inline int on_unix(struct bpf_sock_addr *ctx, int hook)
{
	__u64 id = current_run();
	__u32 reason = REASON_NO_ENTRY;
	struct run *r = bpf_map_lookup_elem(&runs, &id);
	struct bpf_sock_addr_kern *k = bpf_cast_to_kern_ctx(ctx);
	struct path_key key = { .prefixlen = 64 + 8 * PATH_MAX_UNIX, .run = id };
	__u32 len = k->uaddrlen, *kind;
	struct unix_event *e;
	struct counters *c;
	void *ring;

	if (r && r->flags & RUN_UNIX_ANY)
		return VERDICT_PROCEED;
	len = len > 2 ? len - 2 : 0; /* less sun_family */
	if (len > PATH_MAX_UNIX)
		len = PATH_MAX_UNIX;
	if (len)
		bpf_probe_read_kernel(key.path, len, k->uaddr + 2);
	if (r) {
		reason = REASON_UNIX;
		kind = bpf_map_lookup_elem(&paths, &key);
		if (kind && (*kind == PATH_EXACT || (*kind == PATH_BELOW && !climbs(key.path))))
			return VERDICT_PROCEED;
	}
	c = count(id, hook, reason);
	ring = bpf_map_lookup_elem(&rings, &id);
	if (!ring)
		return VERDICT_REFUSE;
	e = bpf_ringbuf_reserve(ring, sizeof(*e), 0);
	if (!e) {
		if (c)
			__sync_fetch_and_add(&c->lost, 1);
		return VERDICT_REFUSE;
	}
	fill(&e->e, id, hook, reason);
	fill_task(&e->e);
	e->e.family = AF_UNIX;
	__builtin_memcpy(e->path, key.path, PATH_MAX_UNIX);
	e->pathlen = len;
	bpf_ringbuf_submit(e, 0);
	return VERDICT_REFUSE;
}

SEC("cgroup/connect_unix")
int unix_connect(struct bpf_sock_addr *ctx)
{
	return on_unix(ctx, HOOK_CONNECT_UNIX);
}

SEC("cgroup/sendmsg_unix")
int unix_sendmsg(struct bpf_sock_addr *ctx)
{
	return on_unix(ctx, HOOK_SENDMSG_UNIX);
}
