/* The system call that a thread is in, by the registers it came with, and what kind of call it is. Numbers are those of
 * the machine's own architecture: a program of another (32 bits) is in calls of "other" kinds. */

/* In no call: it runs in user space, or an exception took it from there. */
#define NO_CALL -1

#ifdef __TARGET_ARCH_arm64
enum {
	CALL_EPOLL_PWAIT = 22, CALL_FCNTL = 25, CALL_IOCTL = 29, CALL_FLOCK = 32, CALL_FTRUNCATE = 46, CALL_FALLOCATE = 47,
	CALL_READ = 63, CALL_WRITE = 64, CALL_READV = 65, CALL_WRITEV = 66, CALL_PREAD64 = 67, CALL_PWRITE64 = 68,
	CALL_PREADV = 69, CALL_PWRITEV = 70, CALL_SENDFILE = 71, CALL_PSELECT6 = 72, CALL_PPOLL = 73, CALL_SPLICE = 76,
	CALL_FSYNC = 82, CALL_FDATASYNC = 83, CALL_SYNC_FILE_RANGE = 84, CALL_EXIT = 93, CALL_EXIT_GROUP = 94,
	CALL_FUTEX = 98, CALL_NANOSLEEP = 101, CALL_CLOCK_NANOSLEEP = 115, CALL_ACCEPT = 202, CALL_CONNECT = 203,
	CALL_SENDTO = 206, CALL_RECVFROM = 207, CALL_SENDMSG = 211, CALL_RECVMSG = 212, CALL_ACCEPT4 = 242,
	CALL_RECVMMSG = 243, CALL_SENDMMSG = 269, CALL_PREADV2 = 286, CALL_PWRITEV2 = 287,
};
#else
enum {
	CALL_READ = 0, CALL_WRITE = 1, CALL_POLL = 7, CALL_IOCTL = 16, CALL_PREAD64 = 17, CALL_PWRITE64 = 18,
	CALL_READV = 19, CALL_WRITEV = 20, CALL_SELECT = 23, CALL_NANOSLEEP = 35, CALL_SENDFILE = 40, CALL_CONNECT = 42,
	CALL_ACCEPT = 43, CALL_SENDTO = 44, CALL_RECVFROM = 45, CALL_SENDMSG = 46, CALL_RECVMSG = 47, CALL_EXIT = 60,
	CALL_FCNTL = 72, CALL_FLOCK = 73, CALL_FSYNC = 74, CALL_FDATASYNC = 75, CALL_FTRUNCATE = 77, CALL_FUTEX = 202,
	CALL_CLOCK_NANOSLEEP = 230, CALL_EXIT_GROUP = 231, CALL_EPOLL_WAIT = 232, CALL_PSELECT6 = 270, CALL_PPOLL = 271,
	CALL_SPLICE = 275, CALL_SYNC_FILE_RANGE = 277, CALL_EPOLL_PWAIT = 281, CALL_FALLOCATE = 285, CALL_ACCEPT4 = 288,
	CALL_PREADV = 295, CALL_PWRITEV = 296, CALL_RECVMMSG = 299, CALL_SENDMMSG = 307, CALL_PREADV2 = 327,
	CALL_PWRITEV2 = 328,
};
#endif
/* The same everywhere: calls that are newer than that table of numbers. */
enum {
	CALL_IO_URING_ENTER = 426, CALL_EPOLL_PWAIT2 = 441, CALL_FUTEX_WAITV = 449, CALL_FUTEX_WAKE = 454,
	CALL_FUTEX_WAIT = 455, CALL_FUTEX_REQUEUE = 456,
};

enum call_kind {
	CALL_OTHER,
	CALL_OF_FUTEX,
	CALL_OF_POLL,  /* waits until any of several is ready, without naming one descriptor */
	CALL_OF_EPOLL, /* the same; its first argument is the descriptor of an epoll instance or ring */
	CALL_OF_SLEEP,
	CALL_READS,  /* from the descriptor that is its first argument */
	CALL_WRITES, /* to it */
	CALL_AT,     /* something else with it */
};

static __always_inline enum call_kind call_kind(int number)
{
	switch (number) {
	case CALL_FUTEX: case CALL_FUTEX_WAIT: case CALL_FUTEX_WAITV:
		return CALL_OF_FUTEX;
#ifndef __TARGET_ARCH_arm64
	case CALL_POLL: case CALL_SELECT:
#endif
	case CALL_PPOLL: case CALL_PSELECT6:
		return CALL_OF_POLL;
#ifndef __TARGET_ARCH_arm64
	case CALL_EPOLL_WAIT:
#endif
	case CALL_EPOLL_PWAIT: case CALL_EPOLL_PWAIT2: case CALL_IO_URING_ENTER:
		return CALL_OF_EPOLL;
	case CALL_NANOSLEEP: case CALL_CLOCK_NANOSLEEP:
		return CALL_OF_SLEEP;
	case CALL_READ: case CALL_READV: case CALL_PREAD64: case CALL_PREADV: case CALL_PREADV2: case CALL_RECVFROM:
	case CALL_RECVMSG: case CALL_RECVMMSG: case CALL_ACCEPT: case CALL_ACCEPT4:
		return CALL_READS;
	case CALL_WRITE: case CALL_WRITEV: case CALL_PWRITE64: case CALL_PWRITEV: case CALL_PWRITEV2: case CALL_SENDTO:
	case CALL_SENDMSG: case CALL_SENDMMSG: case CALL_SENDFILE:
		return CALL_WRITES;
	case CALL_CONNECT: case CALL_FSYNC: case CALL_FDATASYNC: case CALL_SYNC_FILE_RANGE: case CALL_FALLOCATE:
	case CALL_FTRUNCATE: case CALL_FLOCK: case CALL_FCNTL: case CALL_IOCTL: case CALL_SPLICE:
		return CALL_AT;
	default:
		return CALL_OTHER;
	}
}

/* Where user space was left: the number of the call, or NO_CALL, and its first argument. */
static __always_inline int call_of(struct task_struct *task, u64 *argument)
{
	void *regs = (void *)bpf_task_pt_regs(task);
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___a64 *arm64 = regs;
	long number = NO_CALL;
	if (bpf_core_field_exists(x86->orig_ax)) {
		number = BPF_CORE_READ(x86, orig_ax);
		*argument = BPF_CORE_READ(x86, di);
	} else if (bpf_core_field_exists(arm64->syscallno)) {
		number = BPF_CORE_READ(arm64, syscallno);
		*argument = BPF_CORE_READ(arm64, orig_x0);
	}
	return number < 0 ? NO_CALL : number;
}
