/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the echo server share.
 *
 * A connection belongs to its model while it is served: only the model reads
 * from it and writes to it. When the model calls echo_conn_finish() it belongs
 * to the reaper, which waits until the model has let go of it (model->settle),
 * closes its socket and frees it. So nothing that runs on a connection's behalf
 * is left when the connection is gone, and nothing at all when the module is.
 */
#ifndef PLIMSOLL_ECHO_H
#define PLIMSOLL_ECHO_H

#include <linux/list.h>
#include <linux/net.h>
#include <linux/percpu.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <net/sock.h>

/* What is counted; the order is that of the names in counters.c. */
enum echo_counter {
	ECHO_ACCEPTED,		/* connections taken */
	ECHO_RELEASED,		/* connections whose memory and socket are given back */
	ECHO_RECV,		/* receives that brought bytes */
	ECHO_RECV_BYTES,
	ECHO_SEND,		/* sends that took bytes */
	ECHO_SEND_BYTES,
	ECHO_SEND_PARTIAL,	/* sends that took fewer than were given */
	ECHO_SHUTDOWN,		/* receives that found the peer's end of stream */
	ECHO_ERR_ACCEPT,	/* an accept that failed, the closing one left out */
	ECHO_ERR_MEMORY,	/* no memory for a connection */
	ECHO_ERR_START,		/* a connection that could not be given to its model */
	ECHO_ERR_RECV_RESET,	/* a receive that failed, as the peer had reset */
	ECHO_ERR_RECV,		/* a receive that failed otherwise */
	ECHO_ERR_SEND_RESET,	/* a send that failed: reset, or closed for writing */
	ECHO_ERR_SEND,		/* a send that failed otherwise */
	ECHO_COUNTERS
};

struct echo_counts {
	u64 of[ECHO_COUNTERS];
};

DECLARE_PER_CPU(struct echo_counts, echo_counts);

static inline void echo_count(enum echo_counter counter)
{
	this_cpu_inc(echo_counts.of[counter]);
}

static inline void echo_count_add(enum echo_counter counter, u64 amount)
{
	this_cpu_add(echo_counts.of[counter], amount);
}

struct echo_conn;

/* A way to serve connections. */
struct echo_model {
	const char *name;
	/* Begins to serve; the connection is the model's from then on. */
	int (*start)(struct echo_conn *conn);
	/* Waits until nothing runs for a finished connection any more. */
	void (*settle)(struct echo_conn *conn);
};

struct echo_conn {
	struct list_head list;		/* of the open ones, or of those finished */
	struct socket *sock;
	struct work_struct work;	/* of the models that have work items */
	struct task_struct *task;	/* of the model that has a thread each */
	bool is_finished;		/* callback: its work item does nothing any more */
	size_t filled;			/* bytes in the buffer that came */
	size_t sent;			/* and how many of them have gone back */
	/* callback: what the socket called before it called us */
	void (*old_data_ready)(struct sock *sk);
	void (*old_write_space)(struct sock *sk);
	void (*old_state_change)(struct sock *sk);
	u8 buffer[];
};

/* Parameters, fixed while the module is loaded (main.c). */
extern unsigned int echo_buffer_bytes;
extern unsigned int echo_refuse_every;
/* Where connections are served by work items; with the flags asked for. */
extern struct workqueue_struct *echo_workqueue;

extern const struct echo_model echo_model_workqueue;
extern const struct echo_model echo_model_kthread;
extern const struct echo_model echo_model_callback;

/* counters.c */
int echo_counters_init(void);
void echo_counters_exit(void);

/* listener.c */
int echo_listener_open(__be32 address, u16 port, int backlog);
int echo_listener_start(const struct echo_model *model);
void echo_listener_stop(void);
void echo_listener_close(void);

/* connection.c: one step of the echo; see there for what they return */
int echo_conn_receive(struct echo_conn *conn, int flags);
int echo_conn_send(struct echo_conn *conn, int flags);
void echo_conn_serve(struct echo_conn *conn);
struct echo_conn *echo_conn_new(struct socket *sock);
void echo_conn_free(struct echo_conn *conn);

/* reaper.c: which connections there are, and the end of each */
int echo_reaper_init(const struct echo_model *model);
void echo_reaper_exit(void);
void echo_reaper_add(struct echo_conn *conn);
void echo_reaper_refuse(struct echo_conn *conn);
void echo_conn_finish(struct echo_conn *conn);
void echo_reaper_close_all(void);
unsigned int echo_reaper_live(void);

#endif
