/* Segments of the target's ports that were sent again, reset or dropped, the drops by the kernel's reason. */
#define COUNTS_MAX 4
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define REASONS_MAX 512
/* Used for much that is no loss, as is what stands before it; 1 on Linux 6.1, 2 on 6.18. */
enum skb_drop_reason {
	SKB_DROP_REASON_NOT_SPECIFIED = 2,
};
#define REASON_NOT_SPECIFIED bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_NOT_SPECIFIED)

enum { RETRANSMITS, RESETS_SENT, RESETS_RECEIVED, DROPS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS_MAX);
	__type(key, u32);
	__type(value, u64);
} reasons SEC(".maps");

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, const struct sock *sk)
{
	if (sk && is_port(sk->__sk_common.skc_num))
		add(RETRANSMITS, 1);
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(on_reset_sent, const struct sock *sk)
{
	/* Without a socket, the reset answers a segment for nobody. */
	if (sk && is_port(sk->__sk_common.skc_num))
		add(RESETS_SENT, 1);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(on_reset_received, struct sock *sk)
{
	if (sk && is_port(sk->__sk_common.skc_num))
		add(RESETS_RECEIVED, 1);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(on_drop, struct sk_buff *skb, void *location, u32 reason)
{
	u16 protocol, destination = 0;
	u64 *count;
	if (reason <= REASON_NOT_SPECIFIED)
		return 0;
	protocol = __builtin_bswap16(skb->protocol);
	if (protocol != ETH_P_IP && protocol != ETH_P_IPV6)
		return 0;
	if (bpf_probe_read_kernel(&destination, sizeof(destination), skb->head + skb->transport_header + 2))
		return 0;
	if (!is_port(__builtin_bswap16(destination)))
		return 0;
	add(DROPS, 1);
	reason &= 0xffff;
	if (reason >= REASONS_MAX)
		reason = REASON_NOT_SPECIFIED;
	count = bpf_map_lookup_elem(&reasons, &reason);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}
