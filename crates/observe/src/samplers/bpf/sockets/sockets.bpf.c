/* The target's TCP sockets: what it receives and sends, how long from the one to the other, and what TCP makes of it. */
#define COUNTS_MAX 8
#define HISTOGRAMS_MAX 5
#include "plimsoll.bpf.h"

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define TCP_ESTABLISHED 1
#define TCP_CLOSE 7
#define TCP_NAGLE_OFF 1

enum { RECEIVES, SENDS, SENDS_NODELAY, SMALL_IN_FLIGHT, HELD_BACK, SEND_BUFFER_FULL, ESTABLISHED, SOCKETS_LOST };
enum { RECEIVE_BYTES, SEND_BYTES, SERVICE_NS, FIRST_READ_NS, IN_FLIGHT_PACKETS };

struct conn {
	u64 established_ns; /* 0: its first bytes have been read */
	u64 received_ns;    /* 0: nothing was read since the last send */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct conn);
} sockets SEC(".maps");

static __always_inline bool is_tcp(const struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;
	return (family == AF_INET || family == AF_INET6) && sk->sk_protocol == IPPROTO_TCP;
}

static __always_inline void keep(u64 key, struct conn *conn)
{
	if (bpf_map_update_elem(&sockets, &key, conn, BPF_ANY))
		add(SOCKETS_LOST, 1);
}

/* Also the sockets that a listener makes, before anyone has accepted them: in a softirq, so only the port tells. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, const struct sock *sk, const int from, const int to)
{
	u64 key = (u64)sk;
	if (to == TCP_CLOSE) {
		bpf_map_delete_elem(&sockets, &key);
	} else if (to == TCP_ESTABLISHED && is_tcp(sk)) {
		u32 port = sk->__sk_common.skc_num;
		if (bpf_map_lookup_elem(&ports, &port)) {
			struct conn conn = { .established_ns = bpf_ktime_get_ns() };
			add(ESTABLISHED, 1);
			keep(key, &conn);
		}
	}
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_receive, struct sock *sk, int ret)
{
	u64 key = (u64)sk, now;
	struct conn *conn;
	if (ret <= 0 || !is_target(current_tgid()) || !is_tcp(sk) || !is_served(sk->__sk_common.skc_num))
		return 0;
	add(RECEIVES, 1);
	record(RECEIVE_BYTES, ret);
	now = bpf_ktime_get_ns();
	conn = bpf_map_lookup_elem(&sockets, &key);
	if (!conn) {
		struct conn new = { .received_ns = now };
		keep(key, &new);
		return 0;
	}
	if (conn->established_ns) {
		record(FIRST_READ_NS, now - conn->established_ns);
		conn->established_ns = 0;
	}
	if (!conn->received_ns)
		conn->received_ns = now;
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk, int ret)
{
	u64 key = (u64)sk;
	struct tcp_sock *tp;
	struct conn *conn;
	u32 in_flight;
	bool nodelay, unsent;
	if (!is_target(current_tgid()) || !is_tcp(sk) || !is_served(sk->__sk_common.skc_num))
		return 0;
	if (ret <= 0) {
		if (ret == -11)
			add(SEND_BUFFER_FULL, 1);
		return 0;
	}
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	add(SENDS, 1);
	record(SEND_BYTES, ret);
	conn = bpf_map_lookup_elem(&sockets, &key);
	if (conn && conn->received_ns) {
		record(SERVICE_NS, bpf_ktime_get_ns() - conn->received_ns);
		conn->received_ns = 0;
	}
	nodelay = BPF_CORE_READ_BITFIELD_PROBED(tp, nonagle) & TCP_NAGLE_OFF;
	if (nodelay)
		add(SENDS_NODELAY, 1);
	in_flight = tp->packets_out;
	record(IN_FLIGHT_PACKETS, in_flight);
	if (ret >= tp->mss_cache)
		return 0;
	unsent = tp->write_seq != tp->snd_nxt;
	/* What has left may be this very send: then it takes two for one to have been in flight before. */
	if (in_flight > (unsent ? 0 : 1))
		add(SMALL_IN_FLIGHT, 1);
	/* Nagle's rule: a small segment waits while data is in flight (RFC 896). */
	if (unsent && in_flight && !nodelay && tp->write_seq - tp->snd_nxt < tp->mss_cache)
		add(HELD_BACK, 1);
	return 0;
}
