/* How long a thread of the target was runnable and had no CPU: from its wake-up, or its preemption, to its next turn. A wait
 * that began before the window has no length. */
#define COUNTS_MAX 2
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

enum { PREEMPTED, THREADS_LOST };
enum { WAIT_NS };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, u64);
} runnable SEC(".maps");

static __always_inline void is_runnable(u32 tid)
{
	u64 now = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&runnable, &tid, &now, BPF_ANY))
		add(THREADS_LOST, 1);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(often_on_wakeup, struct task_struct *p)
{
	if (is_target(tgid_of(p)))
		is_runnable(p->pid);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(often_on_new, struct task_struct *p)
{
	if (is_target(tgid_of(p)))
		is_runnable(p->pid);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(often_on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	u32 tid = next->pid;
	u64 *since;
	/* Still running as far as it is concerned: it was its turn's end, not its own wish. The state is the one that the
	 * scheduler took: that of the thread itself may have been changed since by who wakes it. */
	if ((preempt || !state) && is_target(tgid_of(prev))) {
		add(PREEMPTED, 1);
		is_runnable(prev->pid);
	}
	since = bpf_map_lookup_elem(&runnable, &tid);
	if (!since)
		return 0;
	if (is_of_window(*since))
		record(WAIT_NS, bpf_ktime_get_ns() - *since);
	bpf_map_delete_elem(&runnable, &tid);
	return 0;
}
