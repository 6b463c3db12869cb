/* When sockets were accepted that have not been read since, by their address: `accepts` writes, `sockets` reads. Those
 * that never send anything are pushed out by others. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u64);
} accepted SEC(".maps");
