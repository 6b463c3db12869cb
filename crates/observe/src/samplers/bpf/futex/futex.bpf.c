/* Waits of the target's threads in futex(2): for locks, conditions and whatever else a program makes of it. */
#define COUNTS_MAX 8
#define HISTOGRAMS_MAX 2
#include "plimsoll.bpf.h"
#include "registers.bpf.h"

#ifdef __TARGET_ARCH_arm64
#define FUTEX 98
#else
#define FUTEX 202
#endif
#define EAGAIN 11
#define ETIMEDOUT 110

/* include/uapi/linux/futex.h; the upper bits of an operation are flags. */
enum { FUTEX_WAIT = 0, FUTEX_LOCK_PI = 6, FUTEX_WAIT_BITSET = 9, FUTEX_WAIT_REQUEUE_PI = 11, FUTEX_LOCK_PI2 = 13 };
#define FUTEX_COMMAND 0x7f

enum { WAITS, TIMED_WAITS, TIMEOUTS, NOT_SLEPT, THREADS_LOST, ADDRESSES_LOST, WAITERS_LOST };
enum { WAIT_NS, TIMED_WAIT_NS };

struct address {
	u64 address;
	u32 tgid;
	u32 pad;
};

struct start {
	u64 at_ns;
	struct address address;
	u64 is_timed;
};

struct waiter {
	struct address address;
	u64 tid;
};

struct use {
	u64 count;
	u64 ns;
	u64 waiters;
	u64 timed_count;
	u64 timed_ns;
	u64 timeouts;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct start);
} started SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct address);
	__type(value, struct use);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct waiter);
	__type(value, u8);
} waiters SEC(".maps");

#ifdef __TARGET_ARCH_arm64
#define ARGUMENT(regs, n, name) BPF_CORE_READ((struct user_pt_regs *)(regs), regs[n])
#else
#define ARGUMENT(regs, n, name) BPF_CORE_READ((struct pt_regs *)(regs), name)
#endif

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, void *regs, long number)
{
	u64 id;
	u32 tid, command;
	struct start start = {};
	if (number != FUTEX)
		return 0;
	id = bpf_get_current_pid_tgid();
	tid = id;
	if (!is_target(id >> 32))
		return 0;
	command = ARGUMENT(regs, 1, si) & FUTEX_COMMAND;
	if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET && command != FUTEX_LOCK_PI &&
	    command != FUTEX_LOCK_PI2 && command != FUTEX_WAIT_REQUEUE_PI)
		return 0;
	start.address.address = ARGUMENT(regs, 0, di);
	start.address.tgid = id >> 32;
	start.is_timed = ARGUMENT(regs, 3, r10) != 0;
	start.at_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&started, &tid, &start, BPF_ANY))
		add(THREADS_LOST, 1);
	return 0;
}

static __always_inline void count(struct start *start, u32 tid, u64 took, bool timed_out)
{
	struct waiter waiter = { .address = start->address, .tid = tid };
	struct use *use = bpf_map_lookup_elem(&addresses, &start->address);
	u8 yes = 1;
	long outcome;
	if (!use) {
		struct use none = {};
		bpf_map_update_elem(&addresses, &start->address, &none, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&addresses, &start->address);
		if (!use) {
			add(ADDRESSES_LOST, 1);
			return;
		}
	}
	if (start->is_timed) {
		__sync_fetch_and_add(&use->timed_count, 1);
		__sync_fetch_and_add(&use->timed_ns, took);
		if (timed_out)
			__sync_fetch_and_add(&use->timeouts, 1);
	} else {
		__sync_fetch_and_add(&use->count, 1);
		__sync_fetch_and_add(&use->ns, took);
	}
	outcome = bpf_map_update_elem(&waiters, &waiter, &yes, BPF_NOEXIST);
	if (!outcome)
		__sync_fetch_and_add(&use->waiters, 1);
	else if (outcome != -17) /* EEXIST */
		add(WAITERS_LOST, 1);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_exit, void *regs, long ret)
{
	u64 id = bpf_get_current_pid_tgid(), took;
	u32 tid = id;
	struct start *found, start;
	if (!is_target(id >> 32))
		return 0;
	found = bpf_map_lookup_elem(&started, &tid);
	/* Another call. */
	if (!found)
		return 0;
	start = *found;
	bpf_map_delete_elem(&started, &tid);
	if (!is_of_window(start.at_ns))
		return 0;
	/* The word had changed already: it did not wait. */
	if (ret == -EAGAIN) {
		add(NOT_SLEPT, 1);
		return 0;
	}
	took = bpf_ktime_get_ns() - start.at_ns;
	if (start.is_timed) {
		add(TIMED_WAITS, 1);
		record(TIMED_WAIT_NS, took);
		if (ret == -ETIMEDOUT)
			add(TIMEOUTS, 1);
	} else {
		add(WAITS, 1);
		record(WAIT_NS, took);
	}
	count(&start, tid, took, ret == -ETIMEDOUT);
	return 0;
}
