/* What is kept of threads in the kernel: a record each, and what is added up of their waits, by place, by who woke them and
 * by who held what they waited for; stalls and pauses. Read by mod.rs and told.rs, word by word. */
/* As `STATES` of model::threads names them. */
enum state {
	ON_CPU,
	RUNNABLE,
	THROTTLED,
	DISK,
	UNINTERRUPTIBLE,
	FUTEX,
	SOCKET,
	POLL,
	PIPE,
	SLEEP,
	STOPPED,
	OTHER,
	STATES_COUNT,
};

struct thread {
	u64 started_ns;
	u64 since_ns; /* in its state */
	u64 first_ns; /* its first event of the window */
	u64 ns[STATES_COUNT];
	u64 argument; /* of the call it waits in */
	u64 holder_ran_ns; /* what the holder had run when the wait began */
	u32 tid;
	u32 tgid;
	u32 state;
	u32 first_state; /* until `first_ns` */
	s32 call;
	u32 descriptor;
	u32 holder; /* of the futex that it waits for; 0: not known */
	u32 is_woken; /* on its way off the CPU */
	u32 woken_from; /* the state before it was able to run */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS_MAX);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* Threads that ended in the window, all together. */
struct ended {
	u64 count;
	u64 ns[STATES_COUNT];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ended);
} ended SEC(".maps");

/* Where a thread waited. */
struct place {
	u32 tid;
	u32 state;
	s32 call;
	u32 descriptor;
};

struct place_use {
	u64 count;
	u64 ns;
	u64 longest_ns;
	u64 argument; /* of the longest: its descriptor */
	struct remote remote; /* of the longest */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EDGES_MAX);
	__type(key, struct place);
	__type(value, struct place_use);
} places SEC(".maps");

/* Who woke whom from what. */
enum { BY_THREAD, BY_INTERRUPT, BY_KERNEL_THREAD };

struct wake {
	u32 tid;
	u32 state;
	u32 by;
	u32 how;
};

struct wake_use {
	u64 count;
	u64 ns; /* waited */
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EDGES_MAX);
	__type(key, struct wake);
	__type(value, struct wake_use);
} wakes SEC(".maps");

/* Who held a futex, as its owner's word says, or who let it go. */
enum { BY_OWNER, BY_RELEASER };

struct holder {
	u64 address;
	u32 tgid;
	u32 tid;
	u32 how;
	u32 pad;
};

struct holder_use {
	u64 count;
	u64 ns;     /* waited for it */
	u64 ran_ns; /* that it ran meanwhile */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EDGES_MAX);
	__type(key, struct holder);
	__type(value, struct holder_use);
} holders SEC(".maps");

struct stall {
	u64 at_ns; /* its end */
	u32 tid;
	u32 state;
};

struct stall_at {
	u64 ns;
	u64 argument;
	s32 call;
	u32 descriptor;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STALLS_MAX);
	__type(key, struct stall);
	__type(value, struct stall_at);
} stalls SEC(".maps");

/* No thread of the target was on a CPU from then on. */
struct pause {
	u64 to_ns;
	u64 by; /* the thread that ended it */
	u64 threads[STATES_COUNT]; /* how many were in which state, of those that had an event before */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STALLS_MAX);
	__type(key, u64);
	__type(value, struct pause);
} pauses SEC(".maps");

struct all {
	u64 on_cpu;  /* threads that came to a CPU in the window and are on it */
	u64 last_ns; /* when one left it last; 0: none has */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct all);
} all SEC(".maps");

/* When userspace ended the window: it takes the programs off one after the other. 0: it goes on. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} until SEC(".maps");
