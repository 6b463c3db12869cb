/* How each thread of the target spends the time, by state: what it waits for, at which kind of descriptor, who wakes it,
 * who held what it waited for; long stalls, and pauses of all threads together.
 *
 * Each moment of a thread's life in the window is in exactly one state. A thread's first event tells what it did before:
 * who leaves a CPU was on it, who is woken waited (and its registers still say for what), who comes to a CPU was able to
 * run. So nothing has to be read at the window's start. What has not ended when it does, userspace adds. */
#define COUNTS_MAX 7
#define HISTOGRAMS_MAX 2
#include "plimsoll.bpf.h"
#include "calls.bpf.h"
#include "descriptors.bpf.h"

#define THREADS_MAX 4096
#define EDGES_MAX 4096
#define STALLS_MAX 1024
/* A stall that is kept with its moment; the same for a pause of all. */
#define STALL_NS 5000000
/* include/linux/sched.h */
#define TASK_INTERRUPTIBLE 1
#define TASK_UNINTERRUPTIBLE 2
#define TASK_STOPPED_TRACED_FROZEN 0x800c
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define JOBCTL_TRAP_FREEZE (1UL << 23)

enum { EVENTS, THREADS_LOST, PLACES_LOST, WAKES_LOST, HOLDERS_LOST, STALLS_LOST, PAUSES_LOST };
enum { STALL, PAUSE };

#include "records.bpf.h"

static __always_inline bool is_over(void)
{
	u32 only = 0;
	u64 *at_ns = bpf_map_lookup_elem(&until, &only);
	return at_ns && *at_ns;
}

/* The record of a thread, a new one with its first event; `is_new`. None of one that exits: [`on_exit`] has ended it. */
static __always_inline struct thread *thread_of(struct task_struct *task, u32 tgid, u64 now, bool *is_new)
{
	u32 tid = tid_of(task);
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
	struct thread begun = {};
	if (thread && thread->started_ns == task->start_time)
		return thread;
	if (task->flags & PF_EXITING)
		return 0;
	*is_new = true;
	begun.started_ns = task->start_time;
	begun.since_ns = window_ns();
	if (begun.since_ns < begun.started_ns)
		begun.since_ns = begun.started_ns;
	begun.first_ns = now;
	begun.tid = tid;
	begun.tgid = tgid;
	begun.call = NO_CALL;
	if (bpf_map_update_elem(&threads, &tid, &begun, BPF_ANY)) {
		add(THREADS_LOST, 1);
		return 0;
	}
	return bpf_map_lookup_elem(&threads, &tid);
}

/* Whether the control group has used up its quota: since Linux 6.18 a thread is taken off for it as it returns to user
 * space; before, its whole queue was, and who was on it already passes for one that waits for a CPU. */
static __always_inline bool is_throttled(struct task_struct *task)
{
	struct cfs_rq *queue = 0;
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(queue->throttle_count))
		return false;
	queue = BPF_CORE_READ(task, se.cfs_rq);
	return queue && BPF_CORE_READ(queue, throttle_count) > 0;
}

/* Looks at what a thread waits for that is in the scheduler's state `state`, and notes its call. */
static __always_inline u32 wait_of(struct task_struct *task, struct thread *thread, u32 state)
{
	u64 argument = 0;
	int call = call_of(task, &argument);
	enum call_kind kind = call_kind(call);
	enum descriptor at;
	thread->call = call;
	thread->argument = argument;
	thread->descriptor = AT_NONE;
	if (state & TASK_STOPPED_TRACED_FROZEN)
		return STOPPED;
	if (bpf_core_field_exists(task->jobctl) && task->jobctl & JOBCTL_TRAP_FREEZE)
		return STOPPED;
	at = kind_at(task, kind, argument);
	thread->descriptor = at;
	if (!(state & TASK_INTERRUPTIBLE)) {
		if (BPF_CORE_READ_BITFIELD(task, in_iowait) || at == AT_FILE || at == AT_LOG)
			return DISK;
		return UNINTERRUPTIBLE;
	}
	if (kind == CALL_OF_FUTEX)
		return FUTEX;
	if (kind == CALL_OF_POLL || kind == CALL_OF_EPOLL)
		return POLL;
	if (kind == CALL_OF_SLEEP)
		return SLEEP;
	if (at == AT_LISTENER || at == AT_CLIENT || at == AT_BACKEND || at == AT_SOCKET)
		return SOCKET;
	return at == AT_PIPE ? PIPE : OTHER;
}

static __always_inline u64 ran_ns(struct thread *thread, u64 now)
{
	u64 ns = thread->ns[ON_CPU];
	return thread->state == ON_CPU && now > thread->since_ns ? ns + (now - thread->since_ns) : ns;
}

/* A pthread mutex of glibc, as far as it is the same on all machines of 64 bits (struct __pthread_mutex_s): others want
 * it where its lock is 2. */
struct mutex_words {
	u32 lock;
	u32 count;
	u32 owner;
	u32 users;
	u32 kind;
};

/* Who holds the futex that the current thread is about to wait for, where a pthread mutex says that. */
static __always_inline void note_holder(struct thread *thread, u64 now)
{
	struct mutex_words words = {};
	struct thread *holder;
	u32 tid;
	if (bpf_probe_read_user(&words, sizeof(words), (void *)thread->argument))
		return;
	if (words.lock != 2 || !words.owner || words.owner == thread->tid || !words.users || words.users >> 20 ||
	    words.kind >> 9)
		return;
	tid = words.owner;
	holder = bpf_map_lookup_elem(&threads, &tid);
	if (holder && holder->tgid != thread->tgid)
		return;
	thread->holder = tid;
	thread->holder_ran_ns = holder ? ran_ns(holder, now) : ~0ULL;
}

static __always_inline void add_holder(struct thread *thread, u32 tid, u32 how, u64 took, u64 ran)
{
	struct holder key = { .address = thread->argument, .tgid = thread->tgid, .tid = tid, .how = how };
	struct holder_use *use = bpf_map_lookup_elem(&holders, &key), none = {};
	if (!use) {
		bpf_map_update_elem(&holders, &key, &none, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&holders, &key);
		if (!use) {
			add(HOLDERS_LOST, 1);
			return;
		}
	}
	__sync_fetch_and_add(&use->count, 1);
	__sync_fetch_and_add(&use->ns, took);
	__sync_fetch_and_add(&use->ran_ns, ran < took ? ran : took);
}

static __always_inline void add_place(struct task_struct *task, struct thread *thread, u64 took)
{
	struct place key = { .tid = thread->tid, .state = thread->state, .call = thread->call,
			     .descriptor = thread->descriptor };
	struct place_use *use = bpf_map_lookup_elem(&places, &key), none = {};
	if (!use) {
		bpf_map_update_elem(&places, &key, &none, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&places, &key);
		if (!use) {
			add(PLACES_LOST, 1);
			return;
		}
	}
	/* Its thread's events come one after the other. */
	use->count++;
	use->ns += took;
	if (took > use->longest_ns) {
		use->longest_ns = took;
		use->argument = thread->argument;
		if (thread->descriptor == AT_CLIENT || thread->descriptor == AT_BACKEND)
			remote_of(task, thread->argument, &use->remote);
	}
}

/* Whether a thread without work may wait so. A wait for a futex may, unless somebody is known to hold it. */
static __always_inline bool is_idle(struct thread *thread)
{
	enum call_kind kind;
	switch (thread->state) {
	case POLL:
	case SLEEP:
		return true;
	case FUTEX:
		return !thread->holder;
	case SOCKET:
	case PIPE:
	case OTHER:
		kind = call_kind(thread->call);
		return thread->descriptor != AT_BACKEND && kind != CALL_WRITES && kind != CALL_AT;
	default:
		return false;
	}
}

static __always_inline void note_stall(struct thread *thread, u64 took, u64 now)
{
	struct stall key = { .at_ns = now, .tid = thread->tid, .state = thread->state };
	struct stall_at at = { .ns = took, .argument = thread->argument, .call = thread->call,
			       .descriptor = thread->descriptor };
	if (took < STALL_NS || is_idle(thread))
		return;
	record(STALL, took);
	if (bpf_map_update_elem(&stalls, &key, &at, BPF_NOEXIST))
		add(STALLS_LOST, 1);
}

/* Ends a thread's state and begins another; how long it took. */
static __always_inline u64 goes_on(struct thread *thread, u32 state, u64 now)
{
	u64 took = now > thread->since_ns ? now - thread->since_ns : 0;
	u32 was = thread->state;
	if (was < STATES_COUNT)
		thread->ns[was] += took;
	thread->since_ns = now;
	thread->state = state;
	return took;
}

/* Who wakes is whoever runs there, if that is in a call that can wake a thread from such a wait; else an interrupt ran on
 * its CPU. An interrupt that comes within such a call is taken for the call: the kernel does not tell programs apart. */
static __always_inline u32 waker_of(u32 state, u32 *how)
{
	struct task_struct *by = bpf_get_current_task_btf();
	u64 argument;
	int call;
	*how = BY_INTERRUPT;
	if (!by->pid)
		return 0;
	if (by->flags & PF_KTHREAD) {
		*how = BY_KERNEL_THREAD;
		return tid_of(by);
	}
	call = call_of(by, &argument);
	if (call == NO_CALL || state == SLEEP)
		return 0;
	if (state == FUTEX && call != CALL_FUTEX && call != CALL_FUTEX_WAKE && call != CALL_FUTEX_REQUEUE &&
	    call != CALL_EXIT && call != CALL_EXIT_GROUP)
		return 0;
	*how = BY_THREAD;
	return tid_of(by);
}

static __always_inline void add_wake(struct thread *thread, u32 state, u64 took, u64 now)
{
	struct wake key = { .tid = thread->tid, .state = state };
	struct wake_use *use, none = {};
	struct thread *waker = 0;
	u64 ran;
	key.by = waker_of(state, &key.how);
	use = bpf_map_lookup_elem(&wakes, &key);
	if (!use) {
		if (key.how != BY_INTERRUPT)
			bpf_get_current_comm(none.comm, sizeof(none.comm));
		bpf_map_update_elem(&wakes, &key, &none, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&wakes, &key);
		if (!use) {
			add(WAKES_LOST, 1);
			return;
		}
	}
	use->count++;
	use->ns += took;
	if (state != FUTEX)
		return;
	if (thread->holder) {
		u32 tid = thread->holder;
		waker = bpf_map_lookup_elem(&threads, &tid);
		/* Who had it has run to let it go. If there was nothing to be seen of such a thread, it was no owner's id. */
		if (!waker || waker->tgid != thread->tgid)
			thread->holder = 0;
	}
	if (thread->holder && waker) {
		ran = ran_ns(waker, now);
		/* Of one without an event until then, all that it ran since the window began is known, not since when. */
		ran = thread->holder_ran_ns == ~0ULL || ran < thread->holder_ran_ns ? 0 : ran - thread->holder_ran_ns;
		add_holder(thread, thread->holder, BY_OWNER, took, ran);
	} else if (key.how == BY_THREAD && key.by != thread->tid) {
		u32 tid = key.by;
		waker = bpf_map_lookup_elem(&threads, &tid);
		if (waker && waker->tgid == thread->tgid)
			/* At the least: since it came to its CPU. */
			add_holder(thread, tid, BY_RELEASER, took,
				   waker->state == ON_CPU && now > waker->since_ns ? now - waker->since_ns : 0);
	}
}

struct look {
	u64 middle_ns;
	struct pause pause;
};

/* In a pause nobody runs, so a thread's state changes but once: as it is woken. What counts is what it was in longer. */
static long count_state(void *map, u32 *key, struct thread *thread, struct look *look)
{
	u32 state = thread->state;
	if (state == RUNNABLE && thread->since_ns > look->middle_ns)
		state = thread->woken_from;
	if (state < STATES_COUNT)
		look->pause.threads[state]++;
	return 0;
}

/* Nobody was on a CPU for so long, and now somebody is: `on_cpu` does not count it yet. */
static __always_inline void note_pause(struct all *together, struct thread *thread, u64 now)
{
	u64 from = together->last_ns;
	struct look look = { .middle_ns = from + (now - from) / 2, .pause = { .to_ns = now, .by = thread->tid } };
	if ((s64)together->on_cpu > 0 || !from || now < from + STALL_NS)
		return;
	bpf_for_each_map_elem(&threads, count_state, &look, 0);
	record(PAUSE, now - from);
	/* -17: another CPU saw the same. */
	if (bpf_map_update_elem(&pauses, &from, &look.pause, BPF_NOEXIST) == -28)
		add(PAUSES_LOST, 1);
}

static __always_inline void leaves(struct task_struct *prev, u32 tgid, bool preempt, u32 state, u64 now)
{
	bool is_new = false;
	struct thread *thread = thread_of(prev, tgid, now, &is_new);
	u32 only = 0, next;
	struct all *together = bpf_map_lookup_elem(&all, &only);
	if (!thread || !together)
		return;
	add(EVENTS, 1);
	if (is_new)
		thread->first_state = thread->state = ON_CPU;
	else if (thread->state == ON_CPU)
		__sync_fetch_and_add(&together->on_cpu, -1);
	together->last_ns = now;
	thread->holder = 0;
	if (preempt || !state)
		next = is_throttled(prev) ? THROTTLED : RUNNABLE;
	else
		next = wait_of(prev, thread, state);
	if (next == FUTEX)
		note_holder(thread, now);
	/* Who woke it was faster than it was off: what it waits for now is a CPU. */
	if (thread->is_woken && next > THROTTLED)
		next = RUNNABLE;
	thread->is_woken = 0;
	thread->woken_from = next;
	goes_on(thread, next, now);
}

/* Ends a thread's record; one without an event until now has none. Not where it leaves its CPU for good: by then its
 * process may be no target any more, its id may be taken back, and whoever waited for it may have gone on. What it does
 * after this, as giving back its memory, is not told. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 tid = tid_of(task), only = 0;
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
	struct all *together = bpf_map_lookup_elem(&all, &only);
	struct ended *gone = bpf_map_lookup_elem(&ended, &only);
	u64 now;
	if (!thread || thread->started_ns != task->start_time || !together || !gone || is_over())
		return 0;
	now = bpf_ktime_get_ns();
	add(EVENTS, 1);
	if (thread->state == ON_CPU)
		__sync_fetch_and_add(&together->on_cpu, -1);
	together->last_ns = now;
	goes_on(thread, OTHER, now);
	__sync_fetch_and_add(&gone->count, 1);
#pragma unroll
	for (int i = 0; i < STATES_COUNT; i++)
		__sync_fetch_and_add(&gone->ns[i], thread->ns[i]);
	bpf_map_delete_elem(&threads, &tid);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	u32 of_prev = tgid_of(prev), of_next = tgid_of(next), only = 0;
	bool leaves_target = is_target(of_prev), is_new = false;
	bool enters_target = of_next == of_prev ? leaves_target : is_target(of_next);
	struct thread *thread;
	struct all *together;
	u64 now, took;
	if ((!leaves_target && !enters_target) || is_over())
		return 0;
	now = bpf_ktime_get_ns();
	if (leaves_target)
		leaves(prev, of_prev, preempt, state, now);
	if (!enters_target)
		return 0;
	thread = thread_of(next, of_next, now, &is_new);
	together = bpf_map_lookup_elem(&all, &only);
	if (!thread || !together)
		return 0;
	add(EVENTS, 1);
	if (is_new)
		thread->first_state = thread->state = thread->woken_from = RUNNABLE;
	note_pause(together, thread, now);
	__sync_fetch_and_add(&together->on_cpu, 1);
	took = now > thread->since_ns ? now - thread->since_ns : 0;
	note_stall(thread, took, now);
	thread->is_woken = 0;
	goes_on(thread, ON_CPU, now);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	u32 tgid = tgid_of(task), state;
	bool is_new = false;
	struct thread *thread;
	u64 now, took;
	if (!is_target(tgid) || is_over())
		return 0;
	state = task->__state;
	now = bpf_ktime_get_ns();
	thread = thread_of(task, tgid, now, &is_new);
	if (!thread)
		return 0;
	if (is_new) {
		/* Not asleep yet, or not any more: then it was on a CPU until now, and its next event says so again. */
		if (!state || task->on_rq) {
			u32 tid = thread->tid;
			bpf_map_delete_elem(&threads, &tid);
			return 0;
		}
		thread->first_state = thread->state = wait_of(task, thread, state);
	}
	if (thread->state == ON_CPU) {
		/* Taken off its queue, but not off the CPU: `leaves` comes after this. */
		thread->is_woken = !task->on_rq;
		return 0;
	}
	if (thread->state <= THROTTLED)
		return 0;
	took = now > thread->since_ns ? now - thread->since_ns : 0;
	add(EVENTS, 1);
	add_wake(thread, thread->state, took, now);
	add_place(task, thread, took);
	note_stall(thread, took, now);
	thread->holder = 0;
	thread->woken_from = thread->state;
	goes_on(thread, RUNNABLE, now);
	return 0;
}
