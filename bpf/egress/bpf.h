/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* The part of the kernel's BPF interface that these programs use, written by hand: the numbers and layouts below are
 * UAPI (include/uapi/linux/bpf.h) and never change. What is not UAPI is marked with preserve_access_index and is
 * relocated at load. */
#ifndef LOCKBOX_BPF_H
#define LOCKBOX_BPF_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;

#define SEC(name) __attribute__((section(name), used))
#define __inline static inline __attribute__((always_inline))
#define __packed __attribute__((packed))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]
#define __ksym __attribute__((section(".ksyms")))

/* Both targets are little endian. */
#define htons(x) __builtin_bswap16(x)
#define ntohs(x) __builtin_bswap16(x)
#define htonl(x) __builtin_bswap32(x)

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define LOOPBACK_IFINDEX 1 /* lo has index 1 in every network namespace */

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_HASH_OF_MAPS = 13,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
#define BPF_F_NO_PREALLOC 1
#define BPF_F_CURRENT_NETNS (-1L)
#define BPF_SK_STORAGE_GET_F_CREATE 1

struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port; /* host byte order */
	__be16 dst_port;
	__u16 : 16;
	__u32 dst_ip4;
	__u32 dst_ip6[4];
	__u32 state;
	int rx_queue_mapping;
};

struct bpf_sock_addr {
	__u32 user_family;
	__be32 user_ip4;
	__be32 user_ip6[4];
	__u32 user_port; /* network byte order in the low half */
	__u32 family;
	__u32 type;
	__u32 protocol;
	__be32 msg_src_ip4;
	__be32 msg_src_ip6[4];
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	/* the rest is not used */
};

struct bpf_sock_tuple {
	union {
		struct {
			__be32 saddr;
			__be32 daddr;
			__be16 sport;
			__be16 dport;
		} ipv4;
		struct {
			__be32 saddr[4];
			__be32 daddr[4];
			__be16 sport;
			__be16 dport;
		} ipv6;
	};
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static __u64 (*bpf_get_current_uid_gid)(void) = (void *)15;
static long (*bpf_get_current_comm)(void *buf, __u32 size) = (void *)16;
static long (*bpf_skb_load_bytes)(const void *skb, __u32 off, void *to, __u32 len) = (void *)26;
static __u64 (*bpf_skb_ancestor_cgroup_id)(struct __sk_buff *skb, int level) = (void *)83;
static struct bpf_sock *(*bpf_sk_lookup_tcp)(void *ctx, struct bpf_sock_tuple *t, __u32 size, __u64 ns, __u64 flags) = (void *)84;
static struct bpf_sock *(*bpf_sk_lookup_udp)(void *ctx, struct bpf_sock_tuple *t, __u32 size, __u64 ns, __u64 flags) = (void *)85;
static long (*bpf_sk_release)(void *sk) = (void *)86;
static struct bpf_sock *(*bpf_skc_lookup_tcp)(void *ctx, struct bpf_sock_tuple *t, __u32 size, __u64 ns, __u64 flags) = (void *)99;
static void *(*bpf_sk_storage_get)(void *map, void *sk, void *value, __u64 flags) = (void *)107;
static long (*bpf_probe_read_kernel)(void *to, __u32 size, const void *from) = (void *)113;
static __u64 (*bpf_get_current_ancestor_cgroup_id)(int level) = (void *)123;
static __u64 (*bpf_ktime_get_boot_ns)(void) = (void *)125;
static __u64 (*bpf_sk_ancestor_cgroup_id)(void *sk, int level) = (void *)129;
static void *(*bpf_ringbuf_reserve)(void *ring, __u64 size, __u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, __u64 flags) = (void *)132;

#endif
