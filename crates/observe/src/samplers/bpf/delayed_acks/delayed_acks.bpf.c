/* Small segments of the target that waited for an acknowledgement by Nagle's rule, and how long until it came. */
#define COUNTS_MAX 3
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

/* TCP_NAGLE_OFF and TCP_NAGLE_CORK: by neither does an acknowledgement release what is held. */
#define NAGLE_OFF_OR_CORK 3
/* The delay of an acknowledgement is 40 ms at first (TCP_DELACK_MIN); a timer adds up to a tick or two. */
#define DELAYED_FROM_NS 36000000ULL
#define DELAYED_TO_NS 48000000ULL

enum { PAIRS, PAIRS_AT_40MS, RELEASED_BY_DATA };
enum { HELD_NS };

/* What of the header is read (RFC 9293, 3.1), in the network's order. */
struct segment {
	u32 ports;
	u32 seq;
	u32 ack;
	u8 words; /* of the header: the upper half */
	u8 flags;
};

/* Before the segment is looked at by TCP: the socket is as it was while it waited. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_segment, struct sock *sk, struct sk_buff *skb)
{
	struct segment segment;
	struct tcp_sock *tp;
	u32 unsent, snd_nxt, snd_una;
	u64 held_ns;
	if (!is_served_by_target(sk))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !tp->packets_out)
		return 0;
	snd_nxt = tp->snd_nxt;
	snd_una = tp->snd_una;
	unsent = tp->write_seq - snd_nxt;
	/* RFC 896, and Minshall's form of it, which Linux has: only a small segment in flight holds another back. */
	if (!unsent || unsent >= tp->mss_cache || (s32)(tp->snd_sml - snd_una) <= 0)
		return 0;
	if (BPF_CORE_READ_BITFIELD_PROBED(tp, nonagle) & NAGLE_OFF_OR_CORK)
		return 0;
	/* Then it was not Nagle: the receiver's window or the congestion window is full. */
	if (snd_una + tp->snd_wnd - snd_nxt < unsent || tp->packets_out >= tp->snd_cwnd)
		return 0;
	if (bpf_probe_read_kernel(&segment, sizeof(segment), skb->data))
		return 0;
	/* It acknowledges less than the small segment: it releases nothing. */
	if ((s32)(__builtin_bswap32(segment.ack) - tp->snd_sml) < 0)
		return 0;
	if (skb->len > (segment.words >> 4) * 4u) {
		add(RELEASED_BY_DATA, 1);
		return 0;
	}
	/* The clock that the socket read when it last tried to send. */
	held_ns = bpf_ktime_get_ns() - tp->tcp_clock_cache;
	add(PAIRS, 1);
	record(HELD_NS, held_ns);
	if (held_ns >= DELAYED_FROM_NS && held_ns <= DELAYED_TO_NS)
		add(PAIRS_AT_40MS, 1);
	return 0;
}
