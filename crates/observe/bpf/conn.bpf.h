/* What is known of a socket of the target's: with the socket itself, so it is found without a search and goes with it. */
struct conn {
	u64 established_ns; /* 0: its first bytes have been read */
	u64 accepted_ns;    /* 0: nobody saw it being accepted */
	u64 arrived_ns;     /* when what was read last had come; 0: nothing was read since the last send */
	u64 is_used;        /* a process of the target has read or written */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct conn);
} sockets SEC(".maps");
