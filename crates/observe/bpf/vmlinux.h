/* Made by vmlinux.sh from vmlinux.list: the kernel's types as far as the programs read them. Do not edit. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef int pid_t;
typedef _Bool bool;
enum { false, true };
enum { BPF_ANY, BPF_NOEXIST, BPF_EXIST };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_USER_STACK = 256, BPF_F_FAST_STACK_CMP = 512 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;
/* The number of the system call and its first argument, by architecture. */
struct pt_regs___x86 {
	long unsigned int orig_ax;
	long unsigned int di;
};
struct pt_regs___a64 {
	__s32 syscallno;
	u64 orig_x0;
};
/* A network namespace, where the kernel has several. */
typedef struct {
	struct net *net;
} possible_net_t;
typedef unsigned short umode_t;
struct in6_addr {
	u8 bytes[16];
};
enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC = 0,
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_HASH_OF_MAPS = 13,
	BPF_MAP_TYPE_DEVMAP = 14,
	BPF_MAP_TYPE_SOCKMAP = 15,
	BPF_MAP_TYPE_CPUMAP = 16,
	BPF_MAP_TYPE_XSKMAP = 17,
	BPF_MAP_TYPE_SOCKHASH = 18,
	BPF_MAP_TYPE_CGROUP_STORAGE_DEPRECATED = 19,
	BPF_MAP_TYPE_CGROUP_STORAGE = 19,
	BPF_MAP_TYPE_REUSEPORT_SOCKARRAY = 20,
	BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE_DEPRECATED = 21,
	BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE = 21,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_DEVMAP_HASH = 25,
	BPF_MAP_TYPE_STRUCT_OPS = 26,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_INODE_STORAGE = 28,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_BLOOM_FILTER = 30,
	BPF_MAP_TYPE_USER_RINGBUF = 31,
	BPF_MAP_TYPE_CGRP_STORAGE = 32,
	BPF_MAP_TYPE_ARENA = 33,
	__MAX_BPF_MAP_TYPE = 34,
};
struct signal_struct {
	atomic_t live;
	int group_exit_code;
};
struct upid {
	int nr;
	struct pid_namespace *ns;
};
struct pid {
	unsigned int level;
	struct upid numbers[0];
};
struct cfs_rq {
	int throttle_count;
};
struct sched_entity {
	struct cfs_rq *cfs_rq;
};
struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_rq;
	struct sched_entity se;
	bool throttled;
	int exit_code;
	long unsigned int jobctl;
	unsigned int in_iowait: 1;
	pid_t pid;
	pid_t tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	u64 start_time;
	char comm[16];
	struct files_struct *files;
	struct signal_struct *signal;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct super_block {
	long unsigned int s_magic;
};
struct inode {
	umode_t i_mode;
	struct super_block *i_sb;
};
struct file {
	void *private_data;
	struct inode *f_inode;
	unsigned int f_flags;
};
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	short unsigned int skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};
struct socket {
	struct sock *sk;
};
struct sock {
	struct sock_common __sk_common;
	u16 sk_type;
	u16 sk_protocol;
};
struct inet_sock {
	struct sock sk;
	__be16 inet_sport;
};
struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct {
		__u32 lrcvtime;
	} icsk_ack;
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_wnd;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_sml;
	u32 write_seq;
	u8 nonagle: 4;
	u64 tcp_clock_cache;
	u32 snd_nxt;
	u32 snd_una;
	u32 packets_out;
};
struct kernel_siginfo {
	int si_code;
};
struct net_device {
	possible_net_t nd_net;
};
struct dst_entry {
	struct net_device *dev;
};
struct sk_buff {
	struct net_device *dev;
	long unsigned int _skb_refdst;
	unsigned int len;
	__be16 protocol;
	__u16 transport_header;
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
};
struct trace_event_raw_kfree_skb {
	void *rx_sk;
};
struct request {
	unsigned int __data_len;
};

#pragma clang attribute pop
#endif
