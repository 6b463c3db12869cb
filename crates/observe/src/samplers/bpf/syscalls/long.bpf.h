/* Long calls, by what they are at; and long stretches in no call, in which a loop that serves many waits for none of them. */
#define LONG_NS 1000000
#define LONG_CALLS_MAX 512

struct long_call {
	s32 number; /* NO_CALL: in none */
	u32 descriptor;
};

struct long_use {
	u64 count;
	u64 ns;
	u64 longest_ns;
	u64 longest_at_ns; /* its end */
	u64 longest_tid;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LONG_CALLS_MAX);
	__type(key, struct long_call);
	__type(value, struct long_use);
} long_calls SEC(".maps");

static __always_inline void note_long(struct task_struct *task, s32 number, u64 argument, u64 took, u64 now)
{
	struct long_call key = { .number = number };
	struct long_use *use, none = {};
	if (number != NO_CALL)
		key.descriptor = kind_at(task, call_kind(number), argument);
	use = bpf_map_lookup_elem(&long_calls, &key);
	if (!use) {
		bpf_map_update_elem(&long_calls, &key, &none, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&long_calls, &key);
		if (!use) {
			add_alone(LONG_LOST, 1);
			return;
		}
	}
	__sync_fetch_and_add(&use->count, 1);
	__sync_fetch_and_add(&use->ns, took);
	/* Of two that end at once on two CPUs, either is as good. */
	if (took > use->longest_ns) {
		use->longest_ns = took;
		use->longest_at_ns = now;
		use->longest_tid = tid_of(task);
	}
}
