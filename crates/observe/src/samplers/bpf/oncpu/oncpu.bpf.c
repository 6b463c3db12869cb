/* Where the target's threads run: at each beat of each CPU's clock, both stacks of who is on it. */
#define COUNTS_MAX 3
#define HISTOGRAMS_MAX 1
#include "plimsoll.bpf.h"

/* What kernel.perf_event_max_stack is by default. */
#define FRAMES_MAX 127
#include "stacks.bpf.h"

enum { SAMPLES, STACKS_LOST, PLACES_LOST };

struct place {
	u32 tgid;
	s32 kernel_stack;
	s32 user_stack;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct place);
	__type(value, u64);
} places SEC(".maps");

SEC("perf_event")
int on_beat(void *ctx)
{
	struct place place = { .tgid = current_tgid() };
	u64 *count, none = 0;
	if (!is_target(place.tgid))
		return 0;
	add(SAMPLES, 1);
	place.kernel_stack = stack_of(ctx, 0);
	place.user_stack = stack_of(ctx, BPF_F_USER_STACK);
	if (place.kernel_stack == STACK_REFUSED || place.user_stack == STACK_REFUSED)
		add(STACKS_LOST, 1);
	count = bpf_map_lookup_elem(&places, &place);
	if (!count) {
		bpf_map_update_elem(&places, &place, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&places, &place);
		if (!count) {
			add(PLACES_LOST, 1);
			return 0;
		}
	}
	__sync_fetch_and_add(count, 1);
	return 0;
}
