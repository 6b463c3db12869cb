/* In which PID namespaces the process is that runs this, from the initial one on, and its id in each. Not attached: userspace
 * runs it once, before the probes are loaded. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* MAX_PID_NS_LEVEL (include/linux/pid_namespace.h), and the initial one. */
#define LEVELS_MAX 33

struct place {
	u64 namespace;
	u64 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LEVELS_MAX);
	__type(key, u32);
	__type(value, struct place);
} places SEC(".maps");

SEC("raw_tp/sys_enter")
int locate(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	void *numbers = (void *)pid + bpf_core_field_offset(pid->numbers);
	u32 level = BPF_CORE_READ(pid, level), i;
	for (i = 0; i < LEVELS_MAX; i++) {
		struct upid *upid = numbers + i * bpf_core_type_size(struct upid);
		struct place *place = bpf_map_lookup_elem(&places, &i);
		if (!place || i > level)
			break;
		place->namespace = (u64)BPF_CORE_READ(upid, ns);
		place->number = BPF_CORE_READ(upid, nr);
	}
	return 0;
}
