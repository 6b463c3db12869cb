/* Where the target's threads wait: the time off a CPU by thread, state and stack. */
#define COUNTS_MAX 4
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

#define FRAMES_MAX 64

enum { SWITCHES, THREADS_LOST, STACKS_LOST, WAITS_LOST };
enum { OFF_NS };

struct wait {
	u32 tid;
	u32 state;
	s32 kernel_stack;
	s32 user_stack;
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

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 4096);
	__uint(key_size, sizeof(u32));
	__uint(value_size, FRAMES_MAX * sizeof(u64));
} stacks SEC(".maps");

static __always_inline void leaves(void *ctx, struct task_struct *prev)
{
	struct off off = {};
	u32 tid = prev->pid;
	add(SWITCHES, 1);
	off.wait.tid = tid;
	off.wait.state = prev->__state;
	off.wait.kernel_stack = bpf_get_stackid(ctx, &stacks, BPF_F_FAST_STACK_CMP);
	off.wait.user_stack = bpf_get_stackid(ctx, &stacks, BPF_F_FAST_STACK_CMP | BPF_F_USER_STACK);
	if (off.wait.kernel_stack == -17 || off.wait.user_stack == -17)
		add(STACKS_LOST, 1);
	off.at_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&gone, &tid, &off, BPF_ANY))
		add(THREADS_LOST, 1);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 tid = next->pid;
	struct wait wait;
	struct off *off;
	struct use *use;
	bool is_whole;
	u64 took;
	if (is_target(prev->tgid))
		leaves(ctx, prev);
	off = bpf_map_lookup_elem(&gone, &tid);
	if (!off)
		return 0;
	took = bpf_ktime_get_ns() - off->at_ns;
	wait = off->wait;
	is_whole = is_of_window(off->at_ns);
	bpf_map_delete_elem(&gone, &tid);
	if (!is_whole)
		return 0;
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
