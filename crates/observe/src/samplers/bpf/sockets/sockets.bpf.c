/* The target's TCP sockets: what it receives and sends, how long from the one to the other, and what TCP makes of it. */
#define COUNTS_MAX 12
#define HISTOGRAMS_MAX 8
#include "plimsoll.bpf.h"
#include "accepted.bpf.h"
#include "tcp.bpf.h"
#include <bpf/bpf_endian.h>

#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_CLOSE 7
#define TCP_NAGLE_OFF 1
#define EAGAIN 11
#define MSG_PEEK 2

/* Each is counted by one program alone, but for the last. */
enum {
	SENDS_NODELAY,
	SMALL_IN_FLIGHT,
	HELD_BACK,
	SEND_BUFFER_FULL,
	PEEKS,
	REQUESTS,
	BEGAN_BEFORE,
	ESTABLISHED,
	CLOSED,
	SOCKETS_LOST,
	OTHERS_REQUESTS,
	GENERATOR_PORTS,
};
enum { RECEIVE_BYTES, SEND_BYTES, SERVICE_NS, FIRST_READ_NS, ACCEPT_QUEUE_NS, ACCEPTED_READ_NS, IN_FLIGHT_PACKETS, OTHERS_SERVICE_NS };

/* With the socket itself: found without a search, and gone when it goes. */
struct conn {
	u64 established_ns; /* 0: its first bytes have been read */
	u64 arrived_ns;     /* when what was read last had come; 0: nothing was read since the last send */
	u64 window_ns;      /* in which window that was, or the send that had none before it */
	u32 is_used;        /* a process of the target has read or written */
	u32 is_others;      /* what was read last is no request of the generator's */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct conn);
} sockets SEC(".maps");

/* How many sockets have state, and how many may; and a moment by two clocks. */
struct bound {
	u64 kept;
	u64 max;
	u64 at_ns;
	u64 at_ticks;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bound);
} bound SEC(".maps");

/* The generator's process; 0: this process puts no load on. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} generator SEC(".maps");

/* Ports from which the generator has connected to one that the target serves, or sent to it; a bit each. Another client
 * that later has one of them is taken for the generator. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct port_bits);
} generators SEC(".maps");

/* Sockets that the generator connects, until they are established: only then have they a port. Of more at once the oldest are
 * pushed out, whose ports are known from what they send. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u8);
} connecting SEC(".maps");

static __always_inline bool is_generator(void)
{
	u32 only = 0;
	u64 *pid = bpf_map_lookup_elem(&generator, &only);
	return pid && *pid && current_tgid() == *pid;
}

static __always_inline bool is_to_target(const struct sock *sk)
{
	return is_served(bpf_ntohs(sk->__sk_common.skc_dport));
}

static __always_inline void know_generators(u16 port)
{
	u32 only = 0;
	struct port_bits *bits = bpf_map_lookup_elem(&generators, &only);
	u64 bit = 1ULL << port % 64;
	if (!bits || bits->words[port / 64] & bit)
		return;
	/* Should another CPU set one of the same word now, the next send sets it again. */
	bits->words[port / 64] |= bit;
	add(GENERATOR_PORTS, 1);
}

static __always_inline bool is_generators(u16 port)
{
	u32 only = 0;
	struct port_bits *bits = bpf_map_lookup_elem(&generators, &only);
	return bits && bits->words[port / 64] >> port % 64 & 1;
}

static __always_inline struct conn *new_conn(const struct sock *sk)
{
	u32 only = 0;
	struct bound *b = bpf_map_lookup_elem(&bound, &only);
	struct conn *conn = 0;
	if (b && !b->at_ns) {
		b->at_ticks = bpf_jiffies64();
		b->at_ns = bpf_ktime_get_ns();
	}
	if (b && b->kept < b->max)
		conn = bpf_sk_storage_get(&sockets, (void *)sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (conn)
		__sync_fetch_and_add(&b->kept, 1);
	else
		add(SOCKETS_LOST, 1);
	return conn;
}

/* Shorter is no wait for a delayed acknowledgement (TCP_DELACK_MIN, 40 ms), whatever CONFIG_HZ is. */
#define TICKS_MIN 4
/* Over so many ticks their length is known well enough. */
#define TICKS_MEASURED 20

/* When the last data came, by the kernel's tick: how long a tick is, nobody says, so it is measured. */
static __noinline u64 by_ticks_ns(u32 ticks)
{
	u32 only = 0;
	struct bound *b = bpf_map_lookup_elem(&bound, &only);
	u64 now_ns = bpf_ktime_get_ns(), now_ticks = bpf_jiffies64(), measured;
	if (!b || !b->at_ns)
		return 0;
	measured = now_ticks - b->at_ticks;
	if (measured < TICKS_MEASURED)
		return 0;
	return now_ns - (now_ns - b->at_ns) / measured * ticks;
}

/* When the data that is read now came: by TCP's clock, unless that has been looked at since for the timer of a delayed
 * acknowledgement; then by the tick at which it came. */
static __always_inline u64 arrival_ns(const struct tcp_sock *tp)
{
	u32 ticks = (u32)bpf_jiffies64() - tp->inet_conn.icsk_ack.lrcvtime;
	u64 clock_ns = tcp_clock_ns(tp), ns;
	if (ticks < TICKS_MIN)
		return clock_ns;
	ns = by_ticks_ns(ticks);
	return ns && ns < clock_ns ? ns : clock_ns;
}

/* Also the sockets that a listener makes, before anyone has accepted them: in a softirq, so only the port tells. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, const struct sock *sk, const int from, const int to)
{
	struct conn *conn;
	u64 socket = (u64)sk;
	u8 yes = 1;
	if (to == TCP_SYN_SENT) {
		if (is_to_target(sk) && is_generator())
			bpf_map_update_elem(&connecting, &socket, &yes, BPF_ANY);
	} else if (from == TCP_SYN_SENT) {
		if (!bpf_map_delete_elem(&connecting, &socket) && to == TCP_ESTABLISHED)
			know_generators(sk->__sk_common.skc_num);
	} else if (to == TCP_CLOSE) {
		u32 only = 0;
		struct bound *b = bpf_map_lookup_elem(&bound, &only);
		if (b && !bpf_sk_storage_delete(&sockets, (void *)sk)) {
			__sync_fetch_and_add(&b->kept, -1);
			add(CLOSED, 1);
		}
	} else if (to == TCP_ESTABLISHED && is_tcp(sk) && is_served_by_target(sk)) {
		add(ESTABLISHED, 1);
		conn = new_conn(sk);
		if (conn)
			conn->established_ns = bpf_ktime_get_ns();
	}
	return 0;
}

/* The state of a socket that the target uses: whose it is, is asked at its first use alone. */
static __always_inline struct conn *conn_of(struct sock *sk, bool *is_ours)
{
	struct conn *conn = bpf_sk_storage_get(&sockets, sk, 0, 0);
	*is_ours = true;
	if (conn && conn->is_used)
		return conn;
	*is_ours = is_target(current_tgid()) && is_tcp(sk);
	if (!*is_ours)
		return 0;
	if (!conn)
		conn = new_conn(sk);
	if (conn)
		conn->is_used = 1;
	return conn;
}

static __always_inline void first_read(u64 socket, u64 established_ns)
{
	u64 now = bpf_ktime_get_ns();
	u64 *accepted_ns = bpf_map_lookup_elem(&accepted, &socket);
	record_alone(FIRST_READ_NS, now - established_ns);
	if (!accepted_ns)
		return;
	/* A socket at an address where another was: accepted before it was there. */
	if (*accepted_ns >= established_ns) {
		record_alone(ACCEPT_QUEUE_NS, *accepted_ns - established_ns);
		record_alone(ACCEPTED_READ_NS, now - *accepted_ns);
	}
	bpf_map_delete_elem(&accepted, &socket);
}

static __always_inline int receive(struct sock *sk, int ret, int flags)
{
	struct tcp_sock *tp;
	struct conn *conn;
	bool is_ours;
	if (ret <= 0 || !is_served(sk->__sk_common.skc_num))
		return 0;
	conn = conn_of(sk, &is_ours);
	if (!is_ours)
		return 0;
	/* What is only looked at is received when it is taken; seen it is already. */
	if (flags & MSG_PEEK)
		add_alone(PEEKS, 1);
	else
		record_alone(RECEIVE_BYTES, ret);
	if (!conn)
		return 0;
	if (conn->established_ns) {
		/* Else it may have been read before, while nobody looked. */
		if (is_of_window(conn->established_ns))
			first_read((u64)sk, conn->established_ns);
		conn->established_ns = 0;
	}
	if (conn->arrived_ns && conn->window_ns == window_ns())
		return 0;
	conn->window_ns = window_ns();
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp) {
		conn->arrived_ns = arrival_ns(tp);
		add_alone(REQUESTS, 1);
		/* What came before the window, its sender may not have been seen to send. */
		conn->is_others = is_of_window(conn->arrived_ns) && !is_generators(bpf_ntohs(sk->__sk_common.skc_dport));
		if (conn->is_others)
			add_alone(OTHERS_REQUESTS, 1);
	}
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(often_on_receive, struct sock *sk, int ret, int flags)
{
	return receive(sk, ret, flags);
}

static __always_inline int send(struct sock *sk, int ret)
{
	struct tcp_sock *tp;
	struct conn *conn;
	u32 in_flight, unsent;
	bool nodelay, is_ours;
	if (ret > 0 && is_to_target(sk) && is_generator())
		know_generators(sk->__sk_common.skc_num);
	if (!is_served(sk->__sk_common.skc_num))
		return 0;
	conn = conn_of(sk, &is_ours);
	if (!is_ours)
		return 0;
	if (ret <= 0) {
		if (ret == -EAGAIN)
			add_alone(SEND_BUFFER_FULL, 1);
		return 0;
	}
	record_alone(SEND_BYTES, ret);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	if (conn && conn->window_ns != window_ns()) {
		/* What it answers was read before the window, or there was nothing to answer. */
		add_alone(BEGAN_BEFORE, 1);
		conn->window_ns = window_ns();
		conn->arrived_ns = 0;
	} else if (conn && conn->arrived_ns) {
		s64 took = tcp_clock_ns(tp) - conn->arrived_ns;
		record_alone(SERVICE_NS, took > 0 ? took : 0);
		if (conn->is_others)
			record_alone(OTHERS_SERVICE_NS, took > 0 ? took : 0);
		conn->arrived_ns = 0;
	}
	nodelay = BPF_CORE_READ_BITFIELD(tp, nonagle) & TCP_NAGLE_OFF;
	if (nodelay)
		add_alone(SENDS_NODELAY, 1);
	in_flight = tp->packets_out;
	record_alone(IN_FLIGHT_PACKETS, in_flight);
	if (ret >= tp->mss_cache)
		return 0;
	unsent = tp->write_seq - tp->snd_nxt;
	/* What has left may be this very send: then it takes two for one to have been in flight before. */
	if (in_flight > (unsent ? 0 : 1))
		add_alone(SMALL_IN_FLIGHT, 1);
	/* Nagle's rule: a small segment waits while data is in flight (RFC 896). */
	if (unsent && in_flight && !nodelay && unsent < tp->mss_cache)
		add_alone(HELD_BACK, 1);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(often_on_send, struct sock *sk, int ret)
{
	return send(sk, ret);
}

/* Before Linux 6.3, which has those two tracepoints: the loader takes these in their stead. */
SEC("?fexit/tcp_recvmsg")
int BPF_PROG(before_often_on_receive, struct sock *sk, void *msg, u64 len, int flags, int *addr_len, int ret)
{
	return receive(sk, ret, flags);
}

SEC("?fexit/tcp_sendmsg")
int BPF_PROG(before_often_on_send, struct sock *sk, void *msg, u64 size, int ret)
{
	return send(sk, ret);
}

/* sendfile(2), which calls the other since Linux 6.5. */
SEC("?fexit/tcp_sendpage")
int BPF_PROG(before_often_on_send_page, struct sock *sk, void *page, int offset, u64 size, int flags, int ret)
{
	return send(sk, ret);
}
