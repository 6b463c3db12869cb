/* Where the target's threads wait: the time off a CPU by thread, state and stack. */
#define COUNTS_MAX 5
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

#define FRAMES_MAX 64
#include "stacks.bpf.h"
/* Of a thread that has ended (include/linux/sched.h): it does not come back, and its id is given to others. */
#define TASK_DEAD 0x80

enum { SWITCHES, BEGAN_BEFORE, THREADS_LOST, STACKS_LOST, WAITS_LOST };
enum { OFF_NS };

struct wait {
	u32 tid;
	u32 state;
	s32 kernel_stack;
	s32 user_stack;
	u64 started_ns; /* the thread: ids are given again */
};

struct off {
	u64 at_ns;
	struct wait wait;
};

struct use {
	u64 count;
	u64 ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct off);
} gone SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wait);
	__type(value, struct use);
} waits SEC(".maps");

static __always_inline void leaves(void *ctx, struct task_struct *prev, u32 state)
{
	struct off off = {};
	u32 tid = prev->pid;
	add(SWITCHES, 1);
	if (state & TASK_DEAD) {
		bpf_map_delete_elem(&gone, &tid);
		return;
	}
	off.wait.tid = tid_of(prev);
	off.wait.state = state;
	off.wait.started_ns = prev->start_time;
	off.wait.kernel_stack = stack_of(ctx, 0);
	off.wait.user_stack = stack_of(ctx, BPF_F_USER_STACK);
	if (off.wait.kernel_stack == STACK_REFUSED || off.wait.user_stack == STACK_REFUSED)
		add(STACKS_LOST, 1);
	off.at_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&gone, &tid, &off, BPF_ANY))
		add(THREADS_LOST, 1);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	u32 tid = next->pid;
	struct wait wait;
	struct off *off;
	struct use *use;
	bool is_whole;
	u64 took;
	/* The state as the scheduler took it: that of the thread itself may have been changed since by who wakes it. Who is
	 * taken off on its way to sleep is runnable still. */
	if (is_target(tgid_of(prev)))
		leaves(ctx, prev, preempt ? 0 : state);
	off = bpf_map_lookup_elem(&gone, &tid);
	if (!off) {
		if (is_target(tgid_of(next)) && is_older(next))
			add(BEGAN_BEFORE, 1);
		return 0;
	}
	took = bpf_ktime_get_ns() - off->at_ns;
	wait = off->wait;
	is_whole = is_of_window(off->at_ns);
	bpf_map_delete_elem(&gone, &tid);
	if (!is_whole || wait.started_ns != next->start_time) {
		add(BEGAN_BEFORE, 1);
		return 0;
	}
	record(OFF_NS, took);
	use = bpf_map_lookup_elem(&waits, &wait);
	if (!use) {
		struct use none = {};
		bpf_map_update_elem(&waits, &wait, &none, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&waits, &wait);
		if (!use) {
			add(WAITS_LOST, 1);
			return 0;
		}
	}
	__sync_fetch_and_add(&use->count, 1);
	__sync_fetch_and_add(&use->ns, took);
	return 0;
}
