/* TLS handshakes of the target by libssl: from the first call for a connection to the one that succeeds. */
#define COUNTS_MAX 5
#define HISTOGRAMS_MAX 2
#include "plimsoll.bpf.h"
#include "registers.bpf.h"

enum { STARTED, COMPLETED, FAILED, CALLS, HANDSHAKES_LOST };
enum { HANDSHAKE_NS, INSIDE_NS };

struct connection {
	u64 ssl;
	u32 tgid;
	u32 pad;
};

struct handshake {
	u64 began_ns;
	u64 inside_ns;
	u64 is_done;
};

struct call {
	struct connection connection;
	u64 entered_ns;
};

/* Those that are done stay until SSL_free: a call for one is no new handshake. The oldest make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct connection);
	__type(value, struct handshake);
} handshakes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct call);
} calls SEC(".maps");

static __always_inline struct connection connection_of(struct pt_regs *ctx)
{
	struct connection connection = { .ssl = PT_REGS_PARM1(ctx), .tgid = current_tgid() };
	return connection;
}

SEC("uprobe/SSL_do_handshake")
int on_enter(struct pt_regs *ctx)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct call call = {};
	struct handshake *handshake;
	if (!is_target(current_tgid()))
		return 0;
	call.connection = connection_of(ctx);
	call.entered_ns = bpf_ktime_get_ns();
	handshake = bpf_map_lookup_elem(&handshakes, &call.connection);
	if (handshake && handshake->is_done)
		return 0;
	if (!handshake) {
		struct handshake new = { .began_ns = call.entered_ns };
		add(STARTED, 1);
		if (bpf_map_update_elem(&handshakes, &call.connection, &new, BPF_ANY))
			add(HANDSHAKES_LOST, 1);
	}
	add(CALLS, 1);
	bpf_map_update_elem(&calls, &thread, &call, BPF_ANY);
	return 0;
}

SEC("uretprobe/SSL_do_handshake")
int on_return(struct pt_regs *ctx)
{
	u64 thread = bpf_get_current_pid_tgid(), now;
	struct call *call = bpf_map_lookup_elem(&calls, &thread);
	struct connection connection;
	struct handshake *handshake;
	if (!call)
		return 0;
	now = bpf_ktime_get_ns();
	connection = call->connection;
	handshake = bpf_map_lookup_elem(&handshakes, &connection);
	if (handshake) {
		handshake->inside_ns += now - call->entered_ns;
		if ((int)PT_REGS_RC(ctx) == 1) {
			handshake->is_done = 1;
			add(COMPLETED, 1);
			record(HANDSHAKE_NS, now - handshake->began_ns);
			record(INSIDE_NS, handshake->inside_ns);
		}
	} else {
		add(HANDSHAKES_LOST, 1);
	}
	bpf_map_delete_elem(&calls, &thread);
	return 0;
}

/* A result that is no success is an error or a wait for bytes, which libssl tells elsewhere. What ends here unfinished
 * has failed. */
SEC("uprobe/SSL_free")
int on_free(struct pt_regs *ctx)
{
	struct connection connection;
	struct handshake *handshake;
	if (!is_target(current_tgid()))
		return 0;
	connection = connection_of(ctx);
	handshake = bpf_map_lookup_elem(&handshakes, &connection);
	if (!handshake)
		return 0;
	if (!handshake->is_done)
		add(FAILED, 1);
	bpf_map_delete_elem(&handshakes, &connection);
	return 0;
}
