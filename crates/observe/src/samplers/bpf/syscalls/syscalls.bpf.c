/* System calls of the target by number: how many, how many failed, how long they took. */
#define COUNTS_MAX 3
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

#define CALLS_MAX 512

enum { ERRORS, THREADS_LOST, UNKNOWN };
enum { CALL_NS };

struct start {
	u64 at_ns; /* 0: the thread is in no call */
	u64 number;
};

/* With the thread itself: found without a search, and gone when it goes. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct start);
} started SEC(".maps");

struct use {
	u64 count;
	u64 errors;
	u64 ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CALLS_MAX);
	__type(key, u32);
	__type(value, struct use);
} uses SEC(".maps");

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, void *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct start *start;
	if (!is_target(task->tgid))
		return 0;
	start = bpf_task_storage_get(&started, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!start) {
		add_alone(THREADS_LOST, 1);
		return 0;
	}
	start->number = number;
	start->at_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_exit, void *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct start *start;
	struct use *use;
	bool failed = ret < 0 && ret >= -4095;
	u64 took;
	u32 number;
	if (!is_target(task->tgid))
		return 0;
	start = bpf_task_storage_get(&started, task, 0, 0);
	if (!start || !is_of_window(start->at_ns))
		return 0;
	took = bpf_ktime_get_ns() - start->at_ns;
	number = start->number;
	start->at_ns = 0;
	record_alone(CALL_NS, took);
	if (failed)
		add_alone(ERRORS, 1);
	use = bpf_map_lookup_elem(&uses, &number);
	if (!use) {
		add_alone(UNKNOWN, 1);
		return 0;
	}
	use->count++;
	use->ns += took;
	use->errors += failed;
	return 0;
}
