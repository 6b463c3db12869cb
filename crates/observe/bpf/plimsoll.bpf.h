/* What every program here shares: whom it looks at, and how it counts.
 *
 * Userspace makes `targets` and `ports` once and gives them to all programs. Counts and histograms are per CPU, so
 * nothing is contended; they are added to atomically, as an interrupt may do the same on the same CPU.
 * Define COUNTS_MAX and HISTOGRAMS_MAX before including this.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define BUCKETS 65

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The PID namespace whose ids are meant by all that userspace puts in or reads: how many it is below the initial one, and
 * where the kernel keeps it. Set before loading: in the initial one nothing of it is left in the programs. */
struct ids {
	u64 level;
	u64 namespace;
};
const volatile struct ids ids SEC(".rodata.ids") = {};

/* Process ids of the target, as that namespace gives them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u8);
} targets SEC(".maps");

/* Ports that the target serves, a bit each; that of port 0: any. One word is read for a port, without a call. */
struct port_bits {
	u64 words[65536 / 64];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct port_bits);
} ports SEC(".maps");

/* Numbers of the target's network namespaces: the same port elsewhere is somebody else's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u8);
} networks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS_MAX);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

/* When these programs were attached last. What was begun before has no end that belongs to it: a program that runs in
 * windows has missed what came between. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} window SEC(".maps");

/* Bucket 0 holds zeros, bucket n the values of n bits: from 2^(n-1) to 2^n - 1. */
struct histogram {
	u64 sum;
	u64 buckets[BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HISTOGRAMS_MAX);
	__type(key, u32);
	__type(value, struct histogram);
} histograms SEC(".maps");

static __always_inline void add(u32 which, u64 n)
{
	u64 *count = bpf_map_lookup_elem(&counts, &which);
	if (count)
		__sync_fetch_and_add(count, n);
}

/* How many bits a value has. Without a branch: the verifier would follow each combination of them at each use, which was
 * most of what loading took. */
static __always_inline u32 bits(u64 v)
{
	u64 n = 0, upper;
#pragma unroll
	for (u32 width = 32; width; width /= 2) {
		/* Negative if there is any bit; its sign then is by how much to go down. */
		upper = -(v >> width);
		barrier_var(upper);
		upper = (upper >> 63) * width;
		n += upper;
		v >>= upper;
	}
	return n + v;
}

static __always_inline void record(u32 which, u64 value)
{
	struct histogram *h = bpf_map_lookup_elem(&histograms, &which);
	u32 bucket = bits(value);
	if (!h || bucket >= BUCKETS)
		return;
	__sync_fetch_and_add(&h->sum, value);
	__sync_fetch_and_add(&h->buckets[bucket], 1);
}

/* As add and record, for programs of a single hook that runs with preemption off and in no interrupt: nobody else is
 * at these counters on this CPU, and a locked addition costs as much as all the rest of them. */
static __always_inline void add_alone(u32 which, u64 n)
{
	u64 *count = bpf_map_lookup_elem(&counts, &which);
	if (count)
		*count += n;
}

static __always_inline void record_alone(u32 which, u64 value)
{
	struct histogram *h = bpf_map_lookup_elem(&histograms, &which);
	u32 bucket = bits(value);
	if (!h || bucket >= BUCKETS)
		return;
	h->sum += value;
	h->buckets[bucket]++;
}

static __always_inline bool is_target(u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid) != 0;
}

static __always_inline bool is_port(u16 port)
{
	u32 only = 0;
	struct port_bits *bits = bpf_map_lookup_elem(&ports, &only);
	return bits && bits->words[port / 64] >> port % 64 & 1;
}

static __always_inline bool is_served(u16 port)
{
	u32 only = 0;
	struct port_bits *bits = bpf_map_lookup_elem(&ports, &only);
	return bits && (bits->words[port / 64] >> port % 64 | bits->words[0]) & 1;
}

static __always_inline u64 window_ns(void)
{
	u32 only = 0;
	u64 *since_ns = bpf_map_lookup_elem(&window, &only);
	return since_ns ? *since_ns : ~0ULL;
}

/* Whether a thread was there before the window: what it comes back from then, it was in already. */
static __always_inline bool is_older(struct task_struct *task)
{
	return task->start_time < window_ns();
}

static __always_inline bool is_of_window(u64 at_ns)
{
	return at_ns >= window_ns();
}

/* A thread's id in the PID namespace of userspace; 0: it has none there, or has gone. */
static __always_inline u32 number_of(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct upid *upid;
	if (!pid || BPF_CORE_READ(pid, level) < ids.level)
		return 0;
	upid = (void *)pid + bpf_core_field_offset(pid->numbers) + ids.level * bpf_core_type_size(struct upid);
	return (u64)BPF_CORE_READ(upid, ns) == ids.namespace ? BPF_CORE_READ(upid, nr) : 0;
}

static __always_inline u32 tid_of(struct task_struct *task)
{
	return ids.level ? number_of(task) : task->pid;
}

static __always_inline u32 tgid_of(struct task_struct *task)
{
	return ids.level ? number_of(BPF_CORE_READ(task, group_leader)) : task->tgid;
}

static __always_inline u32 current_tgid(void)
{
	return ids.level ? tgid_of(bpf_get_current_task_btf()) : bpf_get_current_pid_tgid() >> 32;
}

/* Whether a network namespace is one of the target's. */
static __always_inline bool is_network(struct net *net)
{
	u32 number = BPF_CORE_READ(net, ns.inum);
	return bpf_map_lookup_elem(&networks, &number) != 0;
}

/* Whether a socket has a port that the target serves, in a network of the target's. */
static __always_inline bool is_served_by_target(const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;
	if (!is_port(common->skc_num))
		return false;
	/* Not in a kernel without CONFIG_NET_NS: there is but one. */
	return !bpf_core_field_exists(common->skc_net.net) || is_network(BPF_CORE_READ(common, skc_net.net));
}
