/* Which files the target opens by open(2) and openat(2): a count a name, as the call gives it. */

#ifdef __TARGET_ARCH_arm64
#define OPEN -1
#define OPENAT 56
#else
#define OPEN 2
#define OPENAT 257
#endif
#define PATH_BYTES 128

/* Behind the end of the name all is zero. */
struct path_name {
	char text[PATH_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct path_name);
	__type(value, u64);
} opened SEC(".maps");

static __always_inline void opens(long number, void *regs)
{
	u64 *count, none = 0;
	struct path_name path = {};
	const char *name = (const char *)(number == OPEN ? ARGUMENT(regs, 0, di) : ARGUMENT(regs, 1, si));
	/* Not in memory just now: nothing may be waited for here. */
	if (bpf_probe_read_user_str(path.text, sizeof(path.text), name) <= 0) {
		add_alone(OPENS_UNREAD, 1);
		return;
	}
	count = bpf_map_lookup_elem(&opened, &path);
	if (!count) {
		bpf_map_update_elem(&opened, &path, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&opened, &path);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		add_alone(OPENED_LOST, 1);
}
