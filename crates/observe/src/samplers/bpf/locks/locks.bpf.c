/* How long the target's threads wait for the kernel's own locks (mutexes, semaphores, spin locks). */
#define COUNTS_MAX 3
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

enum { CONTENTIONS, BEGAN_BEFORE, THREADS_LOST };
enum { WAIT_NS };

/* An interrupt may contend for another lock while its thread waits. */
struct wait {
	u64 lock;
	u64 thread;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct wait);
	__type(value, u64);
} waiting SEC(".maps");

SEC("tp_btf/contention_begin")
int BPF_PROG(on_begin, void *lock)
{
	struct wait key = { .lock = (u64)lock, .thread = bpf_get_current_pid_tgid() };
	u64 now;
	if (!is_target(current_tgid()))
		return 0;
	add(CONTENTIONS, 1);
	now = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&waiting, &key, &now, BPF_ANY))
		add(THREADS_LOST, 1);
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_end, void *lock)
{
	struct wait key = { .lock = (u64)lock, .thread = bpf_get_current_pid_tgid() };
	u64 *since;
	if (!is_target(current_tgid()))
		return 0;
	since = bpf_map_lookup_elem(&waiting, &key);
	if (!since) {
		add(BEGAN_BEFORE, 1);
		return 0;
	}
	if (is_of_window(*since))
		record(WAIT_NS, bpf_ktime_get_ns() - *since);
	else
		add(BEGAN_BEFORE, 1);
	bpf_map_delete_elem(&waiting, &key);
	return 0;
}
