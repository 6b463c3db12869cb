/* System calls of the target by number: how many, how many failed, how long they took; and of two of them more: what
 * accept returned, where futex waited, and which files were opened. One pair
 * of programs for all, as each costs every call of the host. */
#define COUNTS_MAX 16
#define HISTOGRAMS_MAX 3
#include "plimsoll.bpf.h"
#include "registers.bpf.h"
#include "calls.bpf.h"
#include "descriptors.bpf.h"

#define CALLS_MAX 512
#define FAILURES_MAX 1024

enum {
	ERRORS,
	BEGAN_BEFORE,
	THREADS_LOST,
	UNKNOWN,
	FAILURES_LOST,
	ACCEPTED,
	EMPTY_HANDED,
	FUTEX_WAITS,
	FUTEX_TIMED_WAITS,
	FUTEX_TIMEOUTS,
	FUTEX_NOT_SLEPT,
	FUTEX_ADDRESSES_LOST,
	FUTEX_WAITERS_LOST,
	LONG_LOST,
	OPENS_UNREAD,
	OPENED_LOST,
};
enum { CALL_NS, FUTEX_WAIT_NS, FUTEX_TIMED_WAIT_NS };

struct start {
	u64 at_ns;     /* 0: the thread is in no call */
	u64 window_ns; /* in which window that was, or the last one */
	u64 left_ns;   /* when it came back from its last call */
	u32 number;
	u32 is_timed;
	u64 futex; /* its address; 0: no wait in futex */
};

#include "accepts.bpf.h"
#include "futex.bpf.h"
#include "long.bpf.h"
#include "opens.bpf.h"

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
	u64 begun;
};

/* Which errors which calls returned. */
struct failure {
	u32 number;
	u32 error;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FAILURES_MAX);
	__type(key, struct failure);
	__type(value, u64);
} failures SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CALLS_MAX);
	__type(key, u32);
	__type(value, struct use);
} uses SEC(".maps");

/* Only the target's threads have one, so who has one needs not be asked for. */
static __always_inline struct start *start_of(struct task_struct *task)
{
	struct start *start = bpf_task_storage_get(&started, task, 0, 0);
	if (start || !is_target(tgid_of(task)))
		return start;
	start = bpf_task_storage_get(&started, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!start)
		add_alone(THREADS_LOST, 1);
	return start;
}

static __always_inline void fails(u32 number, long ret)
{
	struct failure failure = { .number = number, .error = -ret };
	u64 *count = bpf_map_lookup_elem(&failures, &failure), none = 0;
	if (!count) {
		bpf_map_update_elem(&failures, &failure, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&failures, &failure);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		add_alone(FAILURES_LOST, 1);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, void *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct start *start = start_of(task);
	struct use *use;
	u32 call = number;
	u64 now;
	if (!start)
		return 0;
	use = bpf_map_lookup_elem(&uses, &call);
	if (use)
		use->begun++;
	start->number = number;
	start->futex = 0;
	if (number == CALL_FUTEX)
		futex_begins(start, regs);
	else if (number == OPENAT || number == OPEN)
		opens(number, regs);
	start->window_ns = window_ns();
	now = bpf_ktime_get_ns();
	if (is_of_window(start->left_ns) && now - start->left_ns >= LONG_NS)
		note_long(task, NO_CALL, 0, now - start->left_ns, now);
	start->at_ns = now;
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_exit, void *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct start *start = bpf_task_storage_get(&started, task, 0, 0);
	bool failed = ret < 0 && ret >= -4095;
	struct use *use;
	u64 took, now;
	u32 number;
	if (!start || !is_of_window(start->at_ns)) {
		/* A thread that is new comes back from no call that it has made, and one that has entered others meanwhile
		 * from one that seccomp(2) refused. */
		if (start ? start->window_ns != window_ns() : is_target(tgid_of(task)) && is_older(task))
			add_alone(BEGAN_BEFORE, 1);
		if (start) {
			start->at_ns = 0;
			start->left_ns = 0;
			start->window_ns = window_ns();
		}
		return 0;
	}
	now = bpf_ktime_get_ns();
	took = now - start->at_ns;
	number = start->number;
	start->at_ns = 0;
	start->left_ns = now;
	if (took >= LONG_NS)
		note_long(task, number, ARGUMENT(regs, 0, di), took, now);
	record_alone(CALL_NS, took);
	if (failed) {
		add_alone(ERRORS, 1);
		fails(number, ret);
	}
	use = bpf_map_lookup_elem(&uses, &number);
	if (use) {
		use->count++;
		use->ns += took;
		use->errors += failed;
	} else {
		add_alone(UNKNOWN, 1);
	}
	if (number == CALL_ACCEPT || number == CALL_ACCEPT4)
		accept_ends(task, ret);
	if (start->futex)
		futex_ends(task, start, took, ret);
	return 0;
}
