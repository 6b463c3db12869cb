/* System calls of the target by number: how many, how many failed, how long they took. */
#define COUNTS_MAX 4
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

#define CALLS_MAX 512

enum { CALLS, ERRORS, THREADS_LOST, UNKNOWN };
enum { CALL_NS };

struct start {
	u64 at_ns;
	u32 number;
	u32 pad;
};

struct use {
	u64 count;
	u64 errors;
	u64 ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct start);
} started SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CALLS_MAX);
	__type(key, u32);
	__type(value, struct use);
} uses SEC(".maps");

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, void *regs, long number)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id;
	struct start start = {};
	if (!is_target(id >> 32))
		return 0;
	add(CALLS, 1);
	start.at_ns = bpf_ktime_get_ns();
	start.number = number;
	if (bpf_map_update_elem(&started, &tid, &start, BPF_ANY))
		add(THREADS_LOST, 1);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_exit, void *regs, long ret)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id, number;
	struct start *start;
	struct use *use;
	u64 took;
	if (!is_target(id >> 32))
		return 0;
	start = bpf_map_lookup_elem(&started, &tid);
	/* Begun before the window. */
	if (!start)
		return 0;
	number = start->number;
	took = bpf_ktime_get_ns() - start->at_ns;
	bpf_map_delete_elem(&started, &tid);
	record(CALL_NS, took);
	if (ret < 0 && ret >= -4095)
		add(ERRORS, 1);
	use = bpf_map_lookup_elem(&uses, &number);
	if (!use) {
		add(UNKNOWN, 1);
		return 0;
	}
	__sync_fetch_and_add(&use->count, 1);
	__sync_fetch_and_add(&use->ns, took);
	if (ret < 0 && ret >= -4095)
		__sync_fetch_and_add(&use->errors, 1);
	return 0;
}
