/* Who begins to listen on the target's port: each as a record in a ring, and from then on a process of the target. */
#define COUNTS_MAX 3
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define TCP_LISTEN 10

enum { LISTENS, RECORDS_LOST, TARGETS_LOST };

struct record {
	u64 at_ns;
	u32 pid;
	u16 port;
	u16 was_target;
	char comm[16];    /* of the thread */
	char process[16]; /* of its process: of the first thread */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 17);
} records SEC(".maps");

/* In the process that calls listen(2). */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, const struct sock *sk, const int from, const int to)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tgid;
	u16 family;
	struct record *r;
	u8 yes = 1;
	bool was_target;
	if (to != TCP_LISTEN || from == TCP_LISTEN)
		return 0;
	family = sk->__sk_common.skc_family;
	if ((family != AF_INET && family != AF_INET6) || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (!is_served_by_target(sk))
		return 0;
	add(LISTENS, 1);
	tgid = tgid_of(task);
	was_target = is_target(tgid);
	if (!was_target && tgid && bpf_map_update_elem(&targets, &tgid, &yes, BPF_ANY))
		add(TARGETS_LOST, 1);
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		add(RECORDS_LOST, 1);
		return 0;
	}
	r->at_ns = bpf_ktime_get_ns();
	r->pid = tgid;
	r->port = sk->__sk_common.skc_num;
	r->was_target = was_target;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	BPF_CORE_READ_INTO(&r->process, task, group_leader, comm);
	bpf_ringbuf_submit(r, 0);
	return 0;
}
