/* Segments of the target's ports that were sent again, reset or dropped, the drops by the kernel's reason. */
#define COUNTS_MAX 5
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6
/* Where the header of IPv4 has the protocol, and that of IPv6 the next header (RFC 791, RFC 8200). */
#define IP_PROTOCOL 9
#define IPV6_NEXT_HEADER 6
/* Of a packet whose transport header was not found yet. */
#define NOT_SET 0xffff
#define REASONS_MAX 512
/* Used for much that is no loss, as is what stands before it; 1 on Linux 6.1, 2 on 6.18. */
enum skb_drop_reason {
	SKB_DROP_REASON_NOT_SPECIFIED = 2,
};
#define REASON_NOT_SPECIFIED bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_NOT_SPECIFIED)

enum { RETRANSMITS, RESETS_SENT, RESETS_RECEIVED, DROPS, DROPS_UNPLACED };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS_MAX);
	__type(key, u32);
	__type(value, u64);
} reasons SEC(".maps");

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, const struct sock *sk)
{
	if (sk && is_served_by_target(sk))
		add(RETRANSMITS, 1);
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(on_reset_sent, const struct sock *sk)
{
	/* Without a socket, the reset answers a segment for nobody. */
	if (sk && is_served_by_target(sk))
		add(RESETS_SENT, 1);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(on_reset_received, struct sock *sk)
{
	if (sk && is_served_by_target(sk))
		add(RESETS_RECEIVED, 1);
	return 0;
}

/* The network that a packet is in: by its device, else by its route; 0: neither is left. */
static __always_inline struct net *network_of(struct sk_buff *skb)
{
	struct net_device *dev = BPF_CORE_READ(skb, dev);
	struct dst_entry *dst;
	if (dev)
		return BPF_CORE_READ(dev, nd_net.net);
	/* Its lowest bit says whether the route is counted. */
	dst = (void *)(BPF_CORE_READ(skb, _skb_refdst) & ~1UL);
	return dst ? BPF_CORE_READ(dst, dev, nd_net.net) : 0;
}

/* By its own header: another protocol has ports in the same place. Of IPv6, only without further headers. */
static __always_inline bool is_tcp(struct sk_buff *skb)
{
	u16 of_network = __builtin_bswap16(skb->protocol);
	u32 at = of_network == ETH_P_IP ? IP_PROTOCOL : IPV6_NEXT_HEADER;
	u8 protocol = 0;
	if (of_network != ETH_P_IP && of_network != ETH_P_IPV6)
		return false;
	if (skb->transport_header == NOT_SET || skb->network_header >= skb->transport_header)
		return false;
	return !bpf_probe_read_kernel(&protocol, sizeof(protocol), skb->head + skb->network_header + at) &&
	       protocol == IPPROTO_TCP;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(on_drop, struct sk_buff *skb, void *location, u32 reason)
{
	struct trace_event_raw_kfree_skb *told = 0;
	struct net *net = 0;
	u16 destination = 0;
	u64 *count;
	if (reason <= REASON_NOT_SPECIFIED)
		return 0;
	if (!is_tcp(skb))
		return 0;
	if (bpf_probe_read_kernel(&destination, sizeof(destination), skb->head + skb->transport_header + 2))
		return 0;
	if (!is_port(__builtin_bswap16(destination)))
		return 0;
	if (bpf_core_field_exists(((struct sock_common *)0)->skc_net.net)) {
		/* Since Linux 6.11 the hook names the socket that was to have it, where there was one. */
		if (bpf_core_field_exists(told->rx_sk) && ctx[3])
			net = BPF_CORE_READ((struct sock *)ctx[3], __sk_common.skc_net.net);
		if (!net)
			net = network_of(skb);
		if (!net) {
			add(DROPS_UNPLACED, 1);
			return 0;
		}
		if (!is_network(net))
			return 0;
	}
	add(DROPS, 1);
	reason &= 0xffff;
	if (reason >= REASONS_MAX)
		reason = REASON_NOT_SPECIFIED;
	count = bpf_map_lookup_elem(&reasons, &reason);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}
