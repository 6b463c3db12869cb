/* Block I/O of the whole host: from a request's issue to its driver to its completion. */
#define COUNTS_MAX 5
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

enum { ISSUED, ISSUED_BY_TARGET, ERRORS, BEGAN_BEFORE, REQUESTS_LOST };
enum { IO_NS };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, u64);
} issued SEC(".maps");

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, void *rq)
{
	u64 key = (u64)rq, now = bpf_ktime_get_ns();
	add(ISSUED, 1);
	if (is_target(current_tgid()))
		add(ISSUED_BY_TARGET, 1);
	if (bpf_map_update_elem(&issued, &key, &now, BPF_ANY))
		add(REQUESTS_LOST, 1);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete, struct request *rq, int error, unsigned int bytes)
{
	u64 key = (u64)rq, *since;
	/* A part of it: the rest comes. */
	if (bytes < rq->__data_len)
		return 0;
	since = bpf_map_lookup_elem(&issued, &key);
	if (!since) {
		add(BEGAN_BEFORE, 1);
		return 0;
	}
	if (is_of_window(*since))
		record(IO_NS, bpf_ktime_get_ns() - *since);
	else
		add(BEGAN_BEFORE, 1);
	bpf_map_delete_elem(&issued, &key);
	if ((unsigned char)error)
		add(ERRORS, 1);
	return 0;
}
