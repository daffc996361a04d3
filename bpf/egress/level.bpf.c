//go:build ignore
/* SPDX-License-Identifier: Dual MIT/GPL */
/* How deep a cgroup is, counted from the real root: a cgroup namespace hides it from /proc/self/cgroup. A task placed in
 * `target` makes a socket; the level at which its ancestor is `target` is the answer. */
#include "bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MAX_LEVEL 64

const volatile __u64 target = 0; /* cgroup id */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} level SEC(".maps");

SEC("cgroup/sock_create")
int level_socket(struct bpf_sock *ctx)
{
	__u32 zero = 0, *found = bpf_map_lookup_elem(&level, &zero);

	for (int i = 1; found && i < MAX_LEVEL; i++) {
		if (bpf_get_current_ancestor_cgroup_id(i) == target) {
			*found = i;
			break;
		}
	}
	return 1;
}
