/* What a descriptor of a thread's is: a listener, a connection to a client or from here, a file, a pipe. Needs
 * plimsoll.bpf.h and calls.bpf.h. */
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define TCP_LISTEN 10
#define IPPROTO_TCP 6
#define SOCK_DGRAM 2
#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFSOCK 0140000
#define ANON_INODE_FS_MAGIC 0x09041934
#define O_APPEND 02000

/* As `DESCRIPTORS` of model::threads names them. */
enum descriptor {
	AT_NONE,     /* the call names no descriptor */
	AT_LISTENER,
	AT_CLIENT,   /* a connection at a port that the target serves */
	AT_BACKEND,  /* a connection that the target made: of TCP at any other port of this end, or to a unix socket with a name */
	AT_SOCKET,   /* another socket, or one of which that is not known */
	AT_FILE,
	AT_LOG,      /* a file that is only appended to */
	AT_PIPE,
	AT_EPOLL,    /* an epoll instance or a ring, by the call */
	AT_EVENT,    /* an eventfd, a timer, signals and other files without an inode of their own */
	AT_DEVICE,   /* a terminal, a disk, a folder */
	AT_UNKNOWN,  /* not open any more */
};

/* Whom a connection is to. */
struct remote {
	u16 family; /* 0: of none */
	u16 port;   /* in the network's order */
	u32 pad;
	u8 address[16];
};

static __always_inline struct file *file_of(struct task_struct *task, u64 descriptor)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *file = 0;
	if (!table || descriptor >= BPF_CORE_READ(table, max_fds))
		return 0;
	if (bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + descriptor))
		return 0;
	return file;
}

static __always_inline struct sock *socket_of(struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	return socket ? BPF_CORE_READ(socket, sk) : 0;
}

/* Who connected has mostly no name, and what was accepted has its listener's. A log of datagrams answers nothing. */
static __always_inline enum descriptor kind_of_unix(struct sock *sk)
{
	struct unix_sock *here = (struct unix_sock *)sk, *there;
	/* Where it is in a module the kernel's own types lack it. */
	if (!bpf_core_type_exists(struct unix_sock))
		return AT_SOCKET;
	if (BPF_CORE_READ(sk, sk_type) == SOCK_DGRAM || BPF_CORE_READ(here, addr))
		return AT_SOCKET;
	there = (struct unix_sock *)BPF_CORE_READ(here, peer);
	return there && BPF_CORE_READ(there, addr) ? AT_BACKEND : AT_SOCKET;
}

static __always_inline enum descriptor kind_of_socket(struct sock *sk)
{
	u16 family, port;
	if (!sk)
		return AT_SOCKET;
	if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_LISTEN)
		return AT_LISTENER;
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family == AF_UNIX)
		return kind_of_unix(sk);
	if (family != AF_INET && family != AF_INET6)
		return AT_SOCKET;
	port = BPF_CORE_READ(sk, __sk_common.skc_num);
	if (is_port(port))
		return AT_CLIENT;
	/* Where the target's ports are not known, both ends look alike. And UDP has no ends. */
	return is_port(0) || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP ? AT_SOCKET : AT_BACKEND;
}

static __always_inline enum descriptor kind_of_file(struct file *file)
{
	struct inode *inode = file ? BPF_CORE_READ(file, f_inode) : 0;
	u16 type;
	if (!inode)
		return AT_UNKNOWN;
	type = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	if (type == S_IFSOCK)
		return kind_of_socket(socket_of(file));
	if (type == S_IFIFO)
		return AT_PIPE;
	/* Newer kernels (6.16) say that these are regular files. */
	if (!type || BPF_CORE_READ(inode, i_sb, s_magic) == ANON_INODE_FS_MAGIC)
		return AT_EVENT;
	if (type == S_IFREG)
		return BPF_CORE_READ(file, f_flags) & O_APPEND ? AT_LOG : AT_FILE;
	return AT_DEVICE;
}

/* What a call is at. */
static __always_inline enum descriptor kind_at(struct task_struct *task, enum call_kind call, u64 argument)
{
	if (call == CALL_OF_EPOLL)
		return AT_EPOLL;
	if (call != CALL_READS && call != CALL_WRITES && call != CALL_AT)
		return AT_NONE;
	return kind_of_file(file_of(task, (u32)argument));
}

static __always_inline void remote_of(struct task_struct *task, u64 argument, struct remote *to)
{
	struct file *file = file_of(task, (u32)argument);
	struct sock *sk = file ? socket_of(file) : 0;
	__builtin_memset(to, 0, sizeof(*to));
	if (!sk)
		return;
	to->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	to->port = BPF_CORE_READ(sk, __sk_common.skc_dport);
	if (to->family == AF_INET)
		BPF_CORE_READ_INTO((u32 *)to->address, sk, __sk_common.skc_daddr);
	else if (to->family == AF_INET6)
		BPF_CORE_READ_INTO(&to->address, sk, __sk_common.skc_v6_daddr);
	else
		to->family = 0;
}
