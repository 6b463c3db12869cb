/* A request's way through a socket of the target: when its first bytes were there, when they were first read, and when each
 * send of its reply left. A record a send, in a ring that userspace drains. */
#define COUNTS_MAX 4
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"
#include "tcp.bpf.h"

#define TCP_CLOSE 7
#define TCP_LISTEN 10

enum { RECORDS, RECORDS_LOST, UNREAD, SOCKETS_LOST };

struct record {
	u64 arrived_ns;
	u64 read_ns;
	u64 written_ns;
	u16 family;
	u16 port;      /* the target's */
	u16 peer_port; /* in the network's order */
	u16 pad;
	u8 peer[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} records SEC(".maps");

/* When the first record did not fit; userspace sets it back to 0 when it has made room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} full_since SEC(".maps");

/* With the socket itself: found without a search, and gone when it goes. Only of sockets that the target serves, which is
 * asked when the first bytes come. */
struct exchange {
	u64 window_ns;  /* in which window the rest was seen */
	u64 arrived_ns; /* its first bytes */
	u64 read_ns;    /* when a process of the target first saw them; 0: none has */
	u64 is_answered;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct exchange);
} exchanges SEC(".maps");

/* How many more sockets have been given state in a window than have gone, and how many may be: fewer than none, where
 * some went that had it from a window before. */
struct bound {
	u64 window_ns;
	s64 max;
	s64 given;
	u64 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bound);
} bound SEC(".maps");

/* Programs are attached in the order in which they stand here: arrivals last, so that of what has arrived nothing is missed. */
static __always_inline int send(struct sock *sk, int ret)
{
	struct exchange *exchange;
	struct tcp_sock *tp;
	struct record *r;
	u32 only = 0;
	u64 now_ns, clock_ns;
	if (ret <= 0)
		return 0;
	exchange = bpf_sk_storage_get(&exchanges, sk, 0, 0);
	if (!exchange || exchange->window_ns != window_ns())
		return 0;
	exchange->is_answered = 1;
	if (!exchange->read_ns) {
		/* By splice(2), or by a process that is not the target's. */
		add(UNREAD, 1);
		return 0;
	}
	now_ns = bpf_ktime_get_ns();
	tp = bpf_skc_to_tcp_sock(sk);
	/* On a loopback the send returns when the peer's kernel has all of it: the clock was read before that. */
	clock_ns = tp ? tcp_clock_ns(tp) : now_ns;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		u64 *since_ns = bpf_map_lookup_elem(&full_since, &only);
		if (since_ns && !*since_ns)
			*since_ns = clock_ns < now_ns ? clock_ns : now_ns;
		add(RECORDS_LOST, 1);
		return 0;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->arrived_ns = exchange->arrived_ns;
	r->read_ns = exchange->read_ns;
	r->written_ns = clock_ns >= exchange->read_ns && clock_ns <= now_ns ? clock_ns : now_ns;
	r->family = sk->__sk_common.skc_family;
	r->port = sk->__sk_common.skc_num;
	r->peer_port = sk->__sk_common.skc_dport;
	if (r->family == AF_INET)
		BPF_CORE_READ_INTO((u32 *)r->peer, sk, __sk_common.skc_daddr);
	else
		BPF_CORE_READ_INTO(&r->peer, sk, __sk_common.skc_v6_daddr);
	bpf_ringbuf_submit(r, 0);
	add(RECORDS, 1);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk, int ret)
{
	return send(sk, ret);
}

static __always_inline int receive(struct sock *sk, int ret)
{
	struct exchange *exchange;
	if (ret <= 0)
		return 0;
	exchange = bpf_sk_storage_get(&exchanges, sk, 0, 0);
	if (!exchange || exchange->read_ns || exchange->window_ns != window_ns())
		return 0;
	if (is_target(current_tgid()))
		exchange->read_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_receive, struct sock *sk, int ret)
{
	return receive(sk, ret);
}

static __always_inline struct exchange *new_exchange(const struct sock *sk)
{
	u32 only = 0;
	struct bound *b = bpf_map_lookup_elem(&bound, &only);
	struct exchange *exchange = 0;
	if (b && b->window_ns != window_ns()) {
		b->window_ns = window_ns();
		b->given = 0;
	}
	if (b && b->given < b->max)
		exchange = bpf_sk_storage_get(&exchanges, (void *)sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (exchange)
		__sync_fetch_and_add(&b->given, 1);
	else
		add(SOCKETS_LOST, 1);
	return exchange;
}

static __always_inline int arrival(const struct sock *sk)
{
	struct exchange *exchange;
	exchange = bpf_sk_storage_get(&exchanges, (void *)sk, 0, 0);
	if (exchange && exchange->window_ns == window_ns() && !exchange->is_answered)
		return 0;
	if (!exchange) {
		if (!is_tcp(sk) || !is_served_by_target(sk) || sk->__sk_common.skc_state == TCP_LISTEN)
			return 0;
		exchange = new_exchange(sk);
		if (!exchange)
			return 0;
	}
	exchange->window_ns = window_ns();
	exchange->read_ns = 0;
	exchange->is_answered = 0;
	exchange->arrived_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_close, const struct sock *sk, const int from, const int to)
{
	u32 only = 0;
	struct bound *b;
	if (to != TCP_CLOSE)
		return 0;
	b = bpf_map_lookup_elem(&bound, &only);
	if (b && !bpf_sk_storage_delete(&exchanges, (void *)sk))
		__sync_fetch_and_add(&b->given, -1);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_arrival, const struct sock *sk)
{
	return arrival(sk);
}

/* Before Linux 6.3, which has those three tracepoints: the loader takes these in their stead. */
SEC("?fexit/tcp_sendmsg")
int BPF_PROG(before_on_send, struct sock *sk, void *msg, u64 size, int ret)
{
	return send(sk, ret);
}

SEC("?fexit/tcp_recvmsg")
int BPF_PROG(before_on_receive, struct sock *sk, void *msg, u64 len, int flags, int *addr_len, int ret)
{
	return receive(sk, ret);
}

/* Each segment, before TCP has looked at it: only those with data. */
SEC("?tp_btf/tcp_probe")
int BPF_PROG(before_on_arrival, struct sock *sk, struct sk_buff *skb)
{
	u8 words;
	if (!is_served_by_target(sk) || bpf_probe_read_kernel(&words, 1, skb->data + 12))
		return 0;
	return skb->len > (words >> 4) * 4u ? arrival(sk) : 0;
}
