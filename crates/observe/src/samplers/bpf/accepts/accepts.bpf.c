/* When the target accepts a connection. */
#define COUNTS_MAX 2
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"
#include "accepted.bpf.h"

enum { ACCEPTED, EMPTY_HANDED };

/* accept(2) and accept4(2), by architecture. */
static __always_inline bool is_accept(void *regs)
{
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___a64 *arm64 = regs;
	if (bpf_core_field_exists(x86->orig_ax)) {
		u64 number = BPF_CORE_READ(x86, orig_ax);
		return number == 43 || number == 288;
	}
	if (bpf_core_field_exists(arm64->syscallno)) {
		s32 number = BPF_CORE_READ(arm64, syscallno);
		return number == 202 || number == 242;
	}
	return false;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_exit, void *regs, long ret)
{
	struct task_struct *task;
	struct socket *socket;
	struct file **files, *file;
	u64 key, now;
	if (!is_target(current_tgid()) || !is_accept(regs))
		return 0;
	if (ret < 0) {
		add_alone(EMPTY_HANDED, 1);
		return 0;
	}
	task = bpf_get_current_task_btf();
	files = BPF_CORE_READ(task, files, fdt, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), files + ret))
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	key = (u64)BPF_CORE_READ(socket, sk);
	now = bpf_ktime_get_ns();
	add_alone(ACCEPTED, 1);
	bpf_map_update_elem(&accepted, &key, &now, BPF_ANY);
	return 0;
}
