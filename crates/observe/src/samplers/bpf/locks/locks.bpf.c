/* How long the target's threads wait for the kernel's own locks (mutexes, semaphores, spin locks). */
#define COUNTS_MAX 2
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

enum { CONTENTIONS, THREADS_LOST };
enum { WAIT_NS };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, u64);
} waiting SEC(".maps");

/* An interrupt may contend for another lock while its thread waits: the lock is a part of the key. */
static __always_inline u64 key_of(void *lock)
{
	return (u64)lock ^ bpf_get_current_pid_tgid() << 32;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(on_begin, void *lock)
{
	u64 key, now;
	if (!is_target(current_tgid()))
		return 0;
	add(CONTENTIONS, 1);
	key = key_of(lock);
	now = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&waiting, &key, &now, BPF_ANY))
		add(THREADS_LOST, 1);
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_end, void *lock)
{
	u64 key, *since;
	if (!is_target(current_tgid()))
		return 0;
	key = key_of(lock);
	since = bpf_map_lookup_elem(&waiting, &key);
	if (!since)
		return 0;
	if (is_of_window(*since))
		record(WAIT_NS, bpf_ktime_get_ns() - *since);
	bpf_map_delete_elem(&waiting, &key);
	return 0;
}
