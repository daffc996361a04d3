//go:build ignore
/* SPDX-License-Identifier: Dual MIT/GPL */
/* What a run may send, decided by the cgroup below the runs' parent that the caller (socket hooks) or the socket (egress)
 * is in. The hooks give EPERM at the call; egress is the floor below them, and what makes a removed entry bite. */
#include "run.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* An address in one form: IPv4 as ::ffff:a.b.c.d with family 4, also when it came mapped on an IPv6 socket. */
struct dest {
	__be32 addr[4];
	__be16 port;
	__u8 proto;
	__u8 family; /* 4 or 6 */
};

/* LPM: prefixlen counts the bits from `run` on; match order is field order, port in network order. The first 96 bits always
 * match whole. Port 0 is the rule for any port. */
struct rule_key {
	__u32 prefixlen;
	__u64 run;
	__be16 port;
	__u8 proto;
	__u8 family;
	__be32 addr[4];
} __packed;

/* How long the matched prefix of the 128 address bits counts: 0 for an address that a name was pinned to. */
struct rule {
	__u32 bits;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rule_key);
	__type(value, struct rule);
} rules SEC(".maps");

struct denial_key {
	__u32 prefixlen;
	__u32 family; /* 4 or 6 */
	__be32 addr[4];
} __packed;

struct denial {
	__u32 bits;
	__u32 class;
};

/* Built-in denials, the same for every run. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct denial_key);
	__type(value, struct denial);
} denials SEC(".maps");

/* The run that bound a socket. Only sockets that bind have it. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} owners SEC(".maps");

struct answer {
	__u32 reason;
	__u32 class;
	__u32 bits; /* of the run's rule, once allowed */
};

#define PORT_DNS 53

__inline void from4(struct dest *d, __be32 ip, __u32 port, __u32 proto)
{
	d->addr[0] = 0;
	d->addr[1] = 0;
	d->addr[2] = htonl(0xffff);
	d->addr[3] = ip;
	d->port = port;
	d->proto = proto;
	d->family = 4;
}

__inline void from6(struct dest *d, __be32 a, __be32 b, __be32 c, __be32 e, __u32 port, __u32 proto)
{
	d->addr[0] = a;
	d->addr[1] = b;
	d->addr[2] = c;
	d->addr[3] = e;
	d->port = port;
	d->proto = proto;
	d->family = a == 0 && b == 0 && c == htonl(0xffff) ? 4 : 6;
}

/* The unspecified address reaches the loopback one (ip_route_output, tcp_v6_connect). */
__inline int unspecified(const struct dest *d)
{
	return d->addr[3] == 0 && (d->family == 4 || (d->addr[0] == 0 && d->addr[1] == 0 && d->addr[2] == 0));
}

__inline int loopback(const struct dest *d)
{
	if (d->family == 4)
		return (d->addr[3] & htonl(0xff000000)) == htonl(0x7f000000);
	return d->addr[0] == 0 && d->addr[1] == 0 && d->addr[2] == 0 && d->addr[3] == htonl(1);
}

__inline int listens(const struct run *r, __be16 port)
{
	for (int i = 0; i < MAX_LISTEN; i++) {
		if (i >= r->nlisten)
			break;
		if (r->listen[i] == port)
			return 1;
	}
	return 0;
}

__inline int tells(__u64 id, __u32 hook, const struct answer *a, const struct dest *d, int type, int task)
{
	struct counters *c = count(id, hook, a->reason);
	void *ring = bpf_map_lookup_elem(&rings, &id);
	struct event *e;

	if (!ring)
		return VERDICT_REFUSE;
	e = bpf_ringbuf_reserve(ring, sizeof(*e), 0);
	if (!e) {
		if (c)
			__sync_fetch_and_add(&c->lost, 1);
		return VERDICT_REFUSE;
	}
	fill(e, id, hook, a->reason);
	e->class = a->class;
	e->type = type;
	if (d) {
		e->proto = d->proto;
		e->family = d->family;
		e->port = d->port;
		__builtin_memcpy(e->addr, d->addr, 16);
	}
	if (task) /* cgroup_skb has these helpers only after 6.1 */
		fill_task(e);
	bpf_ringbuf_submit(e, 0);
	return VERDICT_REFUSE;
}

/* decide: the longer prefix wins, the run's rule wins a tie. Port 53 stays shut: names are resolved before the run, and a resolver is a
 * way out to everywhere. */
__inline void decide(struct answer *a, __u64 id, const struct dest *d, __u8 proto)
{
	struct rule_key k = { .prefixlen = 96 + 128, .run = id, .port = d->port, .proto = proto, .family = d->family };
	struct denial_key dk = { .prefixlen = 32 + 128, .family = d->family };
	struct rule *r, *any;
	struct denial *no;
	int best = -1;

	__builtin_memcpy(k.addr, d->addr, 16);
	__builtin_memcpy(dk.addr, d->addr, 16);
	a->class = 0;
	a->bits = 0;
	a->reason = REASON_NO_RULE;
	if (d->port == htons(PORT_DNS))
		return;
	r = bpf_map_lookup_elem(&rules, &k);
	if (r)
		best = r->bits;
	k.port = 0;
	any = bpf_map_lookup_elem(&rules, &k);
	if (any && (int)any->bits > best)
		best = any->bits;
	no = bpf_map_lookup_elem(&denials, &dk);
	if (no)
		a->class = no->class;
	if (best < 0)
		return;
	if (no && (int)no->bits > best) {
		a->reason = REASON_BUILTIN;
		return;
	}
	a->bits = best;
	a->reason = REASON_ALLOWED;
}

SEC("cgroup/sock_create")
int egress_socket(struct bpf_sock *ctx)
{
	__u64 id = current_run();
	struct answer a = { .reason = REASON_NO_ENTRY };
	struct dest d = { .proto = ctx->protocol, .family = ctx->family == AF_INET ? 4 : 6 };

	if (bpf_map_lookup_elem(&runs, &id)) {
		/* By protocol too: MPTCP and SCTP are SOCK_STREAM, UDP-Lite and ping are SOCK_DGRAM. */
		if (ctx->type == SOCK_STREAM && ctx->protocol == IPPROTO_TCP)
			return VERDICT_PROCEED;
		if (ctx->type == SOCK_DGRAM && ctx->protocol == IPPROTO_UDP)
			return VERDICT_PROCEED;
		a.reason = REASON_SOCKET;
	}
	return tells(id, HOOK_SOCKET, &a, &d, ctx->type, 1);
}

/* own_listener: the socket that would accept is one that this run bound. */
__inline int own_listener(struct bpf_sock_addr *ctx, __u64 id, const struct dest *d)
{
	struct bpf_sock_tuple t = {};
	struct bpf_sock *sk;
	__u64 *owner;
	int own = 0;

	if (d->family == 4) {
		t.ipv4.daddr = unspecified(d) ? htonl(0x7f000001) : d->addr[3];
		t.ipv4.dport = d->port;
		sk = bpf_skc_lookup_tcp(ctx, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	} else {
		t.ipv6.daddr[3] = htonl(1);
		t.ipv6.dport = d->port;
		sk = bpf_skc_lookup_tcp(ctx, &t, sizeof(t.ipv6), BPF_F_CURRENT_NETNS, 0);
	}
	if (!sk)
		return 0;
	owner = bpf_sk_storage_get(&owners, sk, 0, 0);
	if (owner)
		own = *owner == id;
	bpf_sk_release(sk);
	return own;
}

__inline int on_send(struct bpf_sock_addr *ctx, const struct dest *d, int hook, int connect)
{
	__u64 id = current_run();
	struct answer a = { .reason = REASON_NO_ENTRY };
	struct run *r = bpf_map_lookup_elem(&runs, &id);

	if (r) {
		if (d->proto != IPPROTO_TCP && d->proto != IPPROTO_UDP) {
			a.reason = REASON_SOCKET;
		} else if (loopback(d) || unspecified(d)) {
			/* UDP: egress knows the receiver, and its refusal reaches the sender as EPERM. */
			if (r->flags & RUN_OWN_NET || d->proto == IPPROTO_UDP || own_listener(ctx, id, d))
				return VERDICT_PROCEED;
			a.reason = REASON_LOOPBACK;
		} else {
			decide(&a, id, d, d->proto);
			/* Connecting a UDP socket sends nothing; resolvers do it to sort addresses (RFC 6724) before they use TCP. What
			 * the socket sends then meets egress. */
			if (a.reason != REASON_ALLOWED && connect && d->proto == IPPROTO_UDP) {
				struct answer tcp;

				decide(&tcp, id, d, IPPROTO_TCP);
				if (tcp.reason == REASON_ALLOWED)
					a.reason = REASON_ALLOWED;
			}
			if (a.reason == REASON_ALLOWED)
				return VERDICT_PROCEED;
		}
	}
	return tells(id, hook, &a, d, 0, 1);
}

SEC("cgroup/connect4")
int egress_connect4(struct bpf_sock_addr *ctx)
{
	struct dest d;

	from4(&d, ctx->user_ip4, ctx->user_port, ctx->protocol);
	return on_send(ctx, &d, HOOK_CONNECT4, 1);
}

SEC("cgroup/connect6")
int egress_connect6(struct bpf_sock_addr *ctx)
{
	struct dest d;

	from6(&d, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3], ctx->user_port, ctx->protocol);
	return on_send(ctx, &d, HOOK_CONNECT6, 1);
}

SEC("cgroup/sendmsg4")
int egress_sendmsg4(struct bpf_sock_addr *ctx)
{
	struct dest d;

	from4(&d, ctx->user_ip4, ctx->user_port, ctx->protocol);
	return on_send(ctx, &d, HOOK_SENDMSG4, 0);
}

SEC("cgroup/sendmsg6")
int egress_sendmsg6(struct bpf_sock_addr *ctx)
{
	struct dest d;

	from6(&d, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3], ctx->user_port, ctx->protocol);
	return on_send(ctx, &d, HOOK_SENDMSG6, 0);
}

/* on_bind: loopback and a port of the kernel's choice are free, since egress holds every reply; other ports must be listed. */
__inline int on_bind(struct bpf_sock_addr *ctx, const struct dest *d, int hook)
{
	__u64 id = current_run(), *owner;
	struct answer a = { .reason = REASON_NO_ENTRY };
	struct run *r = bpf_map_lookup_elem(&runs, &id);

	if (r) {
		if (!(r->flags & RUN_OWN_NET) && d->port && !loopback(d) && !listens(r, d->port)) {
			a.reason = REASON_LISTEN;
		} else {
			if (d->proto == IPPROTO_TCP && ctx->sk) {
				owner = bpf_sk_storage_get(&owners, ctx->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
				if (owner)
					*owner = id;
			}
			return VERDICT_PROCEED;
		}
	}
	return tells(id, hook, &a, d, 0, 1);
}

SEC("cgroup/bind4")
int egress_bind4(struct bpf_sock_addr *ctx)
{
	struct dest d;

	from4(&d, ctx->user_ip4, ctx->user_port, ctx->protocol);
	return on_bind(ctx, &d, HOOK_BIND4);
}

SEC("cgroup/bind6")
int egress_bind6(struct bpf_sock_addr *ctx)
{
	struct dest d;

	from6(&d, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3], ctx->user_port, ctx->protocol);
	return on_bind(ctx, &d, HOOK_BIND6);
}

struct packet {
	struct dest to;
	struct bpf_sock_tuple tuple;
	__u32 tuplelen;
	__be16 sport;
	__u8 syn; /* opens a connection: SYN without ACK */
};

/* parse reads the headers. 0: this floor cannot judge the packet (options, extension headers, fragments, other protocols), and
 * d holds what is known. */
__inline int parse(struct __sk_buff *skb, struct packet *p)
{
	__u8 h[40], proto;
	__be16 ports[2];
	__u32 off;
	__u8 flags = 0;

	if (bpf_skb_load_bytes(skb, 0, h, 20))
		return 0;
	if (h[0] >> 4 == 4) {
		__be32 a[2];
		int odd = h[0] != 0x45 || (h[6] & 0x3f) || h[7]; /* options, more fragments, offset */

		__builtin_memcpy(a, h + 12, 8);
		proto = h[9];
		from4(&p->to, a[1], 0, proto);
		if (odd)
			return 0;
		p->tuple.ipv4.saddr = a[0];
		p->tuple.ipv4.daddr = a[1];
		p->tuplelen = sizeof(p->tuple.ipv4);
		off = 20;
	} else if (h[0] >> 4 == 6) {
		__be32 a[8];

		if (bpf_skb_load_bytes(skb, 0, h, 40))
			return 0;
		__builtin_memcpy(a, h + 8, 32);
		proto = h[6];
		from6(&p->to, a[4], a[5], a[6], a[7], 0, proto);
		__builtin_memcpy(&p->tuple.ipv6, a, 32);
		p->tuplelen = sizeof(p->tuple.ipv6);
		off = 40;
	} else {
		return 0;
	}
	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
		return 0;
	if (bpf_skb_load_bytes(skb, off, ports, 4))
		return 0;
	if (p->tuplelen == sizeof(p->tuple.ipv4)) {
		p->tuple.ipv4.sport = ports[0];
		p->tuple.ipv4.dport = ports[1];
	} else {
		p->tuple.ipv6.sport = ports[0];
		p->tuple.ipv6.dport = ports[1];
	}
	p->sport = ports[0];
	p->to.port = ports[1];
	if (proto == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, off + 13, &flags, 1))
			return 0;
		p->syn = (flags & 0x12) == 0x02;
	}
	return 1;
}

enum peer { PEER_NONE, PEER_OWN, PEER_OTHER };

/* peer_of: who receives a packet that stays on this host. The receiver's cgroup is the kernel's own, no mark of ours. */
__inline enum peer peer_of(struct __sk_buff *skb, struct packet *p, __u64 id)
{
	struct bpf_sock *sk;
	__u64 other;
	__u32 len = p->tuplelen;

	if (p->to.proto == IPPROTO_TCP) {
		if (len == sizeof(p->tuple.ipv4))
			sk = bpf_sk_lookup_tcp(skb, &p->tuple, sizeof(p->tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
		else
			sk = bpf_sk_lookup_tcp(skb, &p->tuple, sizeof(p->tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	} else {
		if (len == sizeof(p->tuple.ipv4))
			sk = bpf_sk_lookup_udp(skb, &p->tuple, sizeof(p->tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
		else
			sk = bpf_sk_lookup_udp(skb, &p->tuple, sizeof(p->tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	}
	if (!sk)
		return PEER_NONE;
	other = bpf_sk_ancestor_cgroup_id(sk, run_level);
	bpf_sk_release(sk);
	return other == id ? PEER_OWN : PEER_OTHER;
}

SEC("cgroup_skb/egress")
int egress_packet(struct __sk_buff *skb)
{
	__u64 id = run_level ? bpf_skb_ancestor_cgroup_id(skb, run_level) : 0;
	struct answer a = { .reason = REASON_NO_ENTRY };
	struct run *r = bpf_map_lookup_elem(&runs, &id);
	struct packet p = {};
	enum peer peer;

	if (!parse(skb, &p)) {
		if (r)
			a.reason = REASON_PACKET;
		return tells(id, HOOK_EGRESS, &a, &p.to, 0, 0);
	}
	if (!r)
		return tells(id, HOOK_EGRESS, &a, &p.to, 0, 0);
	/* Replies of a declared server. A connection that the run opens begins with a SYN, and that one is judged. */
	if (p.to.proto == IPPROTO_TCP && !p.syn && listens(r, p.sport))
		return VERDICT_PROCEED;
	if (skb->ifindex == LOOPBACK_IFINDEX || loopback(&p.to)) {
		if (r->flags & RUN_OWN_NET && loopback(&p.to))
			return VERDICT_PROCEED;
		peer = peer_of(skb, &p, id);
		if (peer == PEER_OWN)
			return VERDICT_PROCEED;
		/* To a connection that is gone: nobody receives it, and the reset it draws is what the sender must see. */
		if (peer == PEER_NONE && p.to.proto == IPPROTO_TCP && !p.syn)
			return VERDICT_PROCEED;
		/* Another address of this host: a rule opens it only by naming it whole. */
		if (!loopback(&p.to))
			decide(&a, id, &p.to, p.to.proto);
		if (a.bits < 128)
			a.reason = REASON_LOOPBACK;
	} else {
		decide(&a, id, &p.to, p.to.proto);
	}
	if (a.reason == REASON_ALLOWED)
		return VERDICT_PROCEED;
	return tells(id, HOOK_EGRESS, &a, &p.to, 0, 0);
}
