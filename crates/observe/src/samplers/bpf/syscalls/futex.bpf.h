/* Waits of the target's threads in futex(2): for locks, conditions and whatever else a program makes of it. */

#define EAGAIN 11
#define ETIMEDOUT 110

/* include/uapi/linux/futex.h; the upper bits of an operation are flags. */
enum { FUTEX_WAIT = 0, FUTEX_LOCK_PI = 6, FUTEX_WAIT_BITSET = 9, FUTEX_WAIT_REQUEUE_PI = 11, FUTEX_LOCK_PI2 = 13 };
#define FUTEX_COMMAND 0x7f

struct address {
	u64 address;
	u32 tgid;
	u32 pad;
};

struct waiter {
	struct address address;
	u64 started_ns; /* the thread: its id is given again */
};

struct futex_use {
	u64 count;
	u64 ns;
	u64 waiters;
	u64 timed_count;
	u64 timed_ns;
	u64 timeouts;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct address);
	__type(value, struct futex_use);
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

static __always_inline void futex_begins(struct start *start, void *regs)
{
	u32 command = ARGUMENT(regs, 1, si) & FUTEX_COMMAND;
	if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET && command != FUTEX_LOCK_PI &&
	    command != FUTEX_LOCK_PI2 && command != FUTEX_WAIT_REQUEUE_PI)
		return;
	start->futex = ARGUMENT(regs, 0, di);
	start->is_timed = ARGUMENT(regs, 3, r10) != 0;
}

static __always_inline void futex_ends(struct task_struct *task, struct start *start, u64 took, long ret)
{
	struct waiter waiter = { .address = { .address = start->futex, .tgid = tgid_of(task) },
				 .started_ns = task->start_time };
	struct futex_use *use;
	u8 yes = 1;
	long outcome;
	/* The word had changed already: it did not wait. */
	if (ret == -EAGAIN) {
		add_alone(FUTEX_NOT_SLEPT, 1);
		return;
	}
	use = bpf_map_lookup_elem(&addresses, &waiter.address);
	if (!use) {
		struct futex_use none = {};
		bpf_map_update_elem(&addresses, &waiter.address, &none, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&addresses, &waiter.address);
	}
	if (start->is_timed) {
		add_alone(FUTEX_TIMED_WAITS, 1);
		record_alone(FUTEX_TIMED_WAIT_NS, took);
		if (ret == -ETIMEDOUT)
			add_alone(FUTEX_TIMEOUTS, 1);
	} else {
		add_alone(FUTEX_WAITS, 1);
		record_alone(FUTEX_WAIT_NS, took);
	}
	if (!use) {
		add_alone(FUTEX_ADDRESSES_LOST, 1);
		return;
	}
	if (start->is_timed) {
		__sync_fetch_and_add(&use->timed_count, 1);
		__sync_fetch_and_add(&use->timed_ns, took);
		if (ret == -ETIMEDOUT)
			__sync_fetch_and_add(&use->timeouts, 1);
	} else {
		__sync_fetch_and_add(&use->count, 1);
		__sync_fetch_and_add(&use->ns, took);
	}
	outcome = bpf_map_update_elem(&waiters, &waiter, &yes, BPF_NOEXIST);
	if (!outcome)
		__sync_fetch_and_add(&use->waiters, 1);
	else if (outcome != -17) /* EEXIST */
		add_alone(FUTEX_WAITERS_LOST, 1);
}
