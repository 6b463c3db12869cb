/* What is asked of a TCP socket by more than one program. */
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6

static __always_inline bool is_tcp(const struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;
	return (family == AF_INET || family == AF_INET6) && sk->sk_protocol == IPPROTO_TCP;
}

/* When TCP last looked at the clock for this socket: when a segment came, and when one left. */
static __always_inline u64 tcp_clock_ns(const struct tcp_sock *tp)
{
	return bpf_core_field_exists(tp->tcp_clock_cache) ? tp->tcp_clock_cache : bpf_ktime_get_ns();
}
