/* What accept(2) and accept4(2) return: when a connection was accepted, for `sockets` to read. */
#include "accepted.bpf.h"

static __always_inline void accept_ends(struct task_struct *task, long ret)
{
	struct socket *socket;
	struct file **files, *file;
	u64 key, now;
	if (ret < 0) {
		add_alone(EMPTY_HANDED, 1);
		return;
	}
	files = BPF_CORE_READ(task, files, fdt, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), files + ret))
		return;
	socket = BPF_CORE_READ(file, private_data);
	key = (u64)BPF_CORE_READ(socket, sk);
	now = bpf_ktime_get_ns();
	add_alone(ACCEPTED, 1);
	bpf_map_update_elem(&accepted, &key, &now, BPF_ANY);
}
