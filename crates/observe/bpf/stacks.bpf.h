/* Stacks, each kept once and known by a number.
 *
 * The kernel keeps one stack in each place of its table, chosen by the stack's hash, and refuses another that falls on the
 * same (-EEXIST). With 400 of 4,096 places taken that is one new stack in ten, and a refused one is refused for as long as
 * the other stays: it may be the one that matters most. What is refused goes to a second table. Another table of the
 * kernel's own would take its place from the same hash, and three that fall on one place in the first would do so in the
 * second; so that one is a hash of our own, which few stacks ever reach.
 * Define FRAMES_MAX before including this.
 */
#define STACKS_MAX 4096
#define MORE_STACKS_MAX 1024
#define STACK_REFUSED (-17) /* EEXIST */
#define NUMBER_BITS 30 /* With STACKS_MAX added to it, still above 0. */

struct frames {
	u64 address[FRAMES_MAX + 1]; /* the last one is followed by 0 */
};

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, STACKS_MAX);
	__uint(key_size, sizeof(u32));
	__uint(value_size, FRAMES_MAX * sizeof(u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MORE_STACKS_MAX);
	__type(key, u32);
	__type(value, struct frames);
} more_stacks SEC(".maps");

/* A stack on its way to the second table. Nothing that asks for stacks runs within another of the same object. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct frames);
} refused SEC(".maps");

static __noinline s32 kept_apart(struct frames *frames, u32 depth)
{
	/* Fibonacci hashing (Knuth, The Art of Computer Programming 6.4), an address a round. */
	u64 hash = depth;
	u32 number;
	if (!frames)
		return STACK_REFUSED;
	for (u32 i = 0; i < FRAMES_MAX && i < depth; i++) {
		hash = (hash ^ frames->address[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	number = hash & ((1u << NUMBER_BITS) - 1);
	if (!bpf_map_lookup_elem(&more_stacks, &number) &&
	    bpf_map_update_elem(&more_stacks, &number, frames, BPF_ANY))
		return STACK_REFUSED;
	return STACKS_MAX + number;
}

/* The number of the stack as it is now, that of the kernel or with BPF_F_USER_STACK the program's; the second table's
 * numbers follow on the first's. Below 0: not kept. */
static __always_inline s32 stack_of(void *ctx, u64 flags)
{
	struct frames *frames;
	u32 first = 0, depth;
	long id = bpf_get_stackid(ctx, &stacks, BPF_F_FAST_STACK_CMP | flags), bytes;
	if (id != STACK_REFUSED)
		return id;
	frames = bpf_map_lookup_elem(&refused, &first);
	if (!frames)
		return id;
	bytes = bpf_get_stack(ctx, frames->address, FRAMES_MAX * sizeof(u64), flags);
	if (bytes <= 0)
		return id;
	depth = (u64)bytes / sizeof(u64);
	if (depth > FRAMES_MAX)
		return id;
	frames->address[depth] = 0;
	return kept_apart(frames, depth);
}
