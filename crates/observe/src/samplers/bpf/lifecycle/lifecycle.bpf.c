/* Forks, exits, signals and OOM kills of the target, each as a record in a ring that userspace drains. */
#define COUNTS_MAX 7
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"
#include <bpf/bpf_endian.h>

enum { SIGNALS, EXITS, THREAD_EXITS, FORKS, OOM_KILLS, RECORDS_LOST, TARGETS_LOST };
enum { SIGNAL = 1, EXIT, OOM_KILL };
#define SIGKILL 9
#define SIGURG 23
#define SIGXCPU 24
#define SIGVTALRM 26
#define SIGPROF 27
#define SIGPWR 30
#define SIGRTMIN 32
#define SI_KERNEL 0x80
#define AF_INET 2
#define AF_INET6 10
#define S_IFMT 0170000
#define S_IFSOCK 0140000

/* The process, as well as its id and its start, tells which one: ids are given again. */
struct record {
	u64 at_ns;
	u64 started_ns; /* the process */
	u64 argument;   /* the first of the last system call */
	u32 kind;
	u32 pid;
	u32 tid;
	s32 code;   /* the signal; the exit code as wait(2) gives it */
	s32 detail; /* si_code; the last system call */
	s32 from;   /* the sender's process id; 0: the kernel, or one that has no id here */
	/* If that argument is the descriptor of a socket: its family, else 0; ports, the peer's in the network's order. */
	u16 family;
	u16 local_port;
	u16 remote_port;
	u16 pad;
	u8 local[16];
	u8 remote[16];
	char comm[16];    /* of the thread */
	char process[16]; /* of its process: of the first thread */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
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

/* What a thread was doing as a signal came of that, SIGPIPE of a write: a process ends with its last thread, whose own call may be
 * any other. `code` is the signal, and only the thread and its call are filled in. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct record);
} callers SEC(".maps");

static const struct record no_caller;

/* Members of `signal` are read as BPF_CORE_READ does: of one that is followed as a pointer, the verifier asks whether it
 * may be trusted, and looks through all of the kernel's types for that. */
static __always_inline struct record *new_record(u32 kind, struct task_struct *task, u32 pid, u32 tid)
{
	struct record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		add(RECORDS_LOST, 1);
		return 0;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->at_ns = bpf_ktime_get_ns();
	r->kind = kind;
	r->pid = pid;
	r->tid = tid;
	r->started_ns = BPF_CORE_READ(task, group_leader, start_time);
	BPF_CORE_READ_INTO(&r->comm, task, comm);
	BPF_CORE_READ_INTO(&r->process, task, group_leader, comm);
	return r;
}

/* A child of the target is the target, from its first instruction on. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 tgid;
	u8 yes = 1;
	if (child->pid != child->tgid || !is_target(tgid_of(parent)))
		return 0;
	tgid = tgid_of(child);
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

/* The last system call and its first argument. */
static __always_inline void read_last_call(struct record *r)
{
	void *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___a64 *arm64 = regs;
	r->detail = -1;
	if (bpf_core_field_exists(x86->orig_ax)) {
		r->detail = (s32)BPF_CORE_READ(x86, orig_ax);
		r->argument = BPF_CORE_READ(x86, di);
	} else if (bpf_core_field_exists(arm64->syscallno)) {
		r->detail = BPF_CORE_READ(arm64, syscallno);
		r->argument = BPF_CORE_READ(arm64, orig_x0);
	}
}

/* Whether that is the descriptor of a socket of IPv4 or IPv6, and which. Descriptors are closed after this. */
static __always_inline void read_socket(struct record *r, struct task_struct *task)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *file = 0;
	struct socket *socket;
	struct sock *sk;
	u16 family;
	if (!table || r->argument >= BPF_CORE_READ(table, max_fds))
		return;
	if (bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + r->argument) || !file)
		return;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return;
	socket = BPF_CORE_READ(file, private_data);
	sk = BPF_CORE_READ(socket, sk);
	if (!sk)
		return;
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family == AF_INET) {
		BPF_CORE_READ_INTO((u32 *)r->local, sk, __sk_common.skc_rcv_saddr);
		BPF_CORE_READ_INTO((u32 *)r->remote, sk, __sk_common.skc_daddr);
	} else if (family == AF_INET6) {
		BPF_CORE_READ_INTO(&r->local, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&r->remote, sk, __sk_common.skc_v6_daddr);
	} else {
		return;
	}
	r->family = family;
	r->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	/* Of a connection that was reset the number is gone (__inet_put_port), and the port of its segments is not. */
	if (!r->local_port)
		r->local_port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	r->remote_port = BPF_CORE_READ(sk, __sk_common.skc_dport);
}

SEC("tp_btf/signal_generate")
int BPF_PROG(on_send, int sig, struct kernel_siginfo *info, struct task_struct *task)
{
	u32 tgid = tgid_of(task);
	struct sender sender = { .signal = sig };
	struct record *caller;
	if (!is_target(tgid))
		return 0;
	/* Positive: the kernel itself sends it, whoever is running. */
	if (code_of(info) <= 0)
		sender.pid = current_tgid();
	bpf_map_update_elem(&senders, &tgid, &sender, BPF_ANY);
	if (task != bpf_get_current_task_btf()) {
		bpf_map_delete_elem(&callers, &tgid);
		return 0;
	}
	if (bpf_map_update_elem(&callers, &tgid, &no_caller, BPF_ANY))
		return 0;
	caller = bpf_map_lookup_elem(&callers, &tgid);
	if (!caller)
		return 0;
	caller->code = sig;
	caller->tid = tid_of(task);
	BPF_CORE_READ_INTO(&caller->comm, task, comm);
	read_last_call(caller);
	read_socket(caller, task);
	return 0;
}

/* Whether a language's runtime interrupts a thread of its own by it, again and again: Go by SIGURG, Ruby by SIGVTALRM, profilers by
 * SIGPROF, collectors by SIGXCPU and SIGPWR, .NET by a realtime one. Timers that count CPU time send as the kernel. */
static __always_inline bool is_of_runtime(int sig, s32 from, u32 tgid)
{
	if (sig == SIGVTALRM || sig == SIGPROF)
		return !from || from == (s32)tgid;
	return from == (s32)tgid && (sig == SIGURG || sig == SIGXCPU || sig == SIGPWR || sig >= SIGRTMIN);
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal, int sig, struct kernel_siginfo *info)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tgid = tgid_of(task);
	struct sender *sender;
	struct record *r;
	s32 from = 0;
	int ends_by;
	if (!is_target(tgid))
		return 0;
	sender = bpf_map_lookup_elem(&senders, &tgid);
	if (sender && sender->signal == sig)
		from = sender->pid;
	if (is_of_runtime(sig, from, tgid))
		return 0;
	add(SIGNALS, 1);
	/* A signal that ends the process reaches its threads as SIGKILL (kernel/signal.c, complete_signal). */
	ends_by = BPF_CORE_READ(task, signal, group_exit_code) & 0x7f;
	if (sig == SIGKILL && ends_by)
		sig = ends_by;
	r = new_record(SIGNAL, task, tgid, tid_of(task));
	if (!r)
		return 0;
	r->code = sig;
	r->detail = code_of(info);
	/* Looked at again: above, `sig` was SIGKILL where another one ends the process. */
	if (sender && sender->signal == sig)
		r->from = sender->pid;
	bpf_ringbuf_submit(r, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p)
{
	u32 tgid = tgid_of(p);
	struct record *r, *caller;
	s32 code;
	if (!is_target(tgid))
		return 0;
	/* The thread that exits has been taken off already. */
	if (BPF_CORE_READ(p, signal, live.counter) > 0) {
		add(THREAD_EXITS, 1);
		return 0;
	}
	/* Its id may be given to another process from now on. */
	bpf_map_delete_elem(&targets, &tgid);
	bpf_map_delete_elem(&senders, &tgid);
	add(EXITS, 1);
	code = BPF_CORE_READ(p, signal, group_exit_code);
	r = new_record(EXIT, p, tgid, tid_of(p));
	if (!r)
		return 0;
	r->code = code ? code : p->exit_code;
	caller = bpf_map_lookup_elem(&callers, &tgid);
	if (caller && caller->code == (r->code & 0x7f)) {
		r->tid = caller->tid;
		r->detail = caller->detail;
		r->argument = caller->argument;
		r->family = caller->family;
		r->local_port = caller->local_port;
		r->remote_port = caller->remote_port;
		__builtin_memcpy(r->local, caller->local, sizeof(r->local));
		__builtin_memcpy(r->remote, caller->remote, sizeof(r->remote));
		__builtin_memcpy(r->comm, caller->comm, sizeof(r->comm));
	} else {
		read_last_call(r);
		read_socket(r, p);
	}
	bpf_map_delete_elem(&callers, &tgid);
	bpf_ringbuf_submit(r, 0);
	return 0;
}

/* Raw: its first argument was the process id before Linux 6.9 and is the task since; and it needs no tracefs. That id is
 * one of the initial namespace: where plimsoll is in another, such a kernel does not tell whom it means. */
SEC("raw_tp/mark_victim")
int on_oom(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	bool is_task = ctx[0] >> 32;
	struct record *r;
	u32 pid;
	if (is_task)
		pid = ids.level ? number_of(BPF_CORE_READ(task, group_leader)) : BPF_CORE_READ(task, tgid);
	else
		pid = ids.level ? 0 : (u32)ctx[0];
	if (!is_target(pid))
		return 0;
	add(OOM_KILLS, 1);
	/* Of a number alone nothing else is known: who runs now need not be the one. */
	r = new_record(OOM_KILL, is_task ? task : bpf_get_current_task_btf(), pid, pid);
	if (!r)
		return 0;
	if (!is_task) {
		r->started_ns = 0;
		r->comm[0] = 0;
		r->process[0] = 0;
	}
	bpf_ringbuf_submit(r, 0);
	return 0;
}
