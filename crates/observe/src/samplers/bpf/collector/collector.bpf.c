/* Pauses that a language runtime makes for its collector: from where it begins to where it ends, in one thread. */
#define COUNTS_MAX 4
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

/* Shorter ones are counted, and are no records: as the client's gaps, from 5 ms on. */
#define RECORD_NS_MIN 5000000

enum { BEGUN, LONG, PAUSES_LOST, RECORDS_LOST };
enum { PAUSE_NS };

struct record {
	u64 from_ns;
	u64 to_ns;
	u32 pid;
	u32 pad;
	char process[16]; /* of its process: of the first thread */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 17);
} records SEC(".maps");

/* When the pause began that a thread is in. One whose end was not seen is replaced by the thread's next. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u64);
} pauses SEC(".maps");

SEC("uprobe/begins")
int on_begin(void *ctx)
{
	u64 thread = bpf_get_current_pid_tgid(), now;
	if (!is_target(current_tgid()))
		return 0;
	add(BEGUN, 1);
	now = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&pauses, &thread, &now, BPF_ANY))
		add(PAUSES_LOST, 1);
	return 0;
}

SEC("uprobe/ends")
int on_end(void *ctx)
{
	u64 thread = bpf_get_current_pid_tgid(), now, from_ns;
	u64 *since_ns = bpf_map_lookup_elem(&pauses, &thread);
	struct task_struct *task = bpf_get_current_task_btf();
	struct record *r;
	if (!since_ns)
		return 0;
	now = bpf_ktime_get_ns();
	from_ns = *since_ns;
	bpf_map_delete_elem(&pauses, &thread);
	record(PAUSE_NS, now - from_ns);
	if (now - from_ns < RECORD_NS_MIN)
		return 0;
	add(LONG, 1);
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		add(RECORDS_LOST, 1);
		return 0;
	}
	r->from_ns = from_ns;
	r->to_ns = now;
	r->pid = current_tgid();
	r->pad = 0;
	BPF_CORE_READ_INTO(&r->process, task, group_leader, comm);
	bpf_ringbuf_submit(r, 0);
	return 0;
}
