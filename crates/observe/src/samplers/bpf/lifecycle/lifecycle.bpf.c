/* Forks, exits, signals and OOM kills of the target, each as a record in a ring that userspace drains. */
#define COUNTS_MAX 7
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

enum { SIGNALS, EXITS, THREAD_EXITS, FORKS, OOM_KILLS, RECORDS_LOST, TARGETS_LOST };
enum { SIGNAL = 1, EXIT, OOM_KILL };
#define SIGKILL 9
#define SI_KERNEL 0x80

struct record {
	u64 at_ns;
	u32 kind;
	u32 pid;
	u32 tid;
	s32 code;   /* the signal; the exit code as wait(2) gives it */
	s32 detail; /* si_code; the last system call */
	s32 from;   /* the sender's process id; 0: the kernel */
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 19);
} records SEC(".maps");

/* Who sent the last signal to a process, as far as that was a process. */
struct sender {
	s32 signal;
	s32 pid;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct sender);
} senders SEC(".maps");

/* Members of `signal` are read as BPF_CORE_READ does: of one that is followed as a pointer, the verifier asks whether it
 * may be trusted, and looks through all of the kernel's types for that. */
static __always_inline struct record *new_record(u32 kind)
{
	struct record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		add(RECORDS_LOST, 1);
		return 0;
	}
	r->at_ns = bpf_ktime_get_ns();
	r->kind = kind;
	r->detail = 0;
	r->from = 0;
	return r;
}

/* A child of the target is the target, from its first instruction on. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 tgid = child->tgid;
	u8 yes = 1;
	if (child->pid != tgid || !is_target(parent->tgid))
		return 0;
	add(FORKS, 1);
	if (bpf_map_update_elem(&targets, &tgid, &yes, BPF_ANY))
		add(TARGETS_LOST, 1);
	return 0;
}

/* 0 and 1 stand for "from user space" and "from the kernel" (SEND_SIG_NOINFO, SEND_SIG_PRIV). */
static __always_inline s32 code_of(struct kernel_siginfo *info)
{
	s32 code = SI_KERNEL;
	/* The compiler must not compute with the pointer instead: the verifier forbids it. */
	barrier_var(code);
	if ((unsigned long)info > 1)
		return BPF_CORE_READ(info, si_code);
	return info ? code : 0;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(on_send, int sig, struct kernel_siginfo *info, struct task_struct *task)
{
	u32 tgid = task->tgid;
	struct sender sender = { .signal = sig };
	if (!is_target(tgid))
		return 0;
	/* Positive: the kernel itself sends it, whoever is running. */
	if (code_of(info) <= 0)
		sender.pid = current_tgid();
	bpf_map_update_elem(&senders, &tgid, &sender, BPF_ANY);
	return 0;
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal, int sig, struct kernel_siginfo *info)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 id = bpf_get_current_pid_tgid();
	u32 tgid = id >> 32;
	struct sender *sender;
	struct record *r;
	int ends_by;
	if (!is_target(tgid))
		return 0;
	add(SIGNALS, 1);
	/* A signal that ends the process reaches its threads as SIGKILL (kernel/signal.c, complete_signal). */
	ends_by = BPF_CORE_READ(task, signal, group_exit_code) & 0x7f;
	if (sig == SIGKILL && ends_by)
		sig = ends_by;
	r = new_record(SIGNAL);
	if (!r)
		return 0;
	r->pid = id >> 32;
	r->tid = (u32)id;
	r->code = sig;
	r->detail = code_of(info);
	sender = bpf_map_lookup_elem(&senders, &tgid);
	if (sender && sender->signal == sig)
		r->from = sender->pid;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	bpf_ringbuf_submit(r, 0);
	return 0;
}

static __always_inline s32 last_system_call(void)
{
	void *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___a64 *arm64 = regs;
	if (bpf_core_field_exists(x86->orig_ax))
		return (s32)BPF_CORE_READ(x86, orig_ax);
	if (bpf_core_field_exists(arm64->syscallno))
		return BPF_CORE_READ(arm64, syscallno);
	return -1;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p)
{
	u32 tgid = p->tgid;
	struct record *r;
	s32 code;
	if (!is_target(tgid))
		return 0;
	/* The thread that exits has been taken off already. */
	if (BPF_CORE_READ(p, signal, live.counter) > 0) {
		add(THREAD_EXITS, 1);
		return 0;
	}
	bpf_map_delete_elem(&targets, &tgid);
	add(EXITS, 1);
	code = BPF_CORE_READ(p, signal, group_exit_code);
	r = new_record(EXIT);
	if (!r)
		return 0;
	r->pid = tgid;
	r->tid = p->pid;
	r->code = code ? code : p->exit_code;
	r->detail = last_system_call();
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	bpf_ringbuf_submit(r, 0);
	return 0;
}

/* Raw: its first argument was the process id before Linux 6.9 and is the task since; and it needs no tracefs. */
SEC("raw_tp/mark_victim")
int on_oom(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct record *r;
	u32 pid = ctx[0] >> 32 ? BPF_CORE_READ(task, tgid) : (u32)ctx[0];
	if (!is_target(pid))
		return 0;
	add(OOM_KILLS, 1);
	r = new_record(OOM_KILL);
	if (!r)
		return 0;
	r->pid = pid;
	r->tid = pid;
	r->code = 0;
	__builtin_memset(r->comm, 0, sizeof(r->comm));
	bpf_ringbuf_submit(r, 0);
	return 0;
}
