// SPDX-License-Identifier: GPL-2.0
/*
 * Which connections there are, and the end of each.
 *
 * A connection cannot be freed by what serves it: a work item cannot wait for
 * its own end, nor a thread. So it is put on a list, and a work item of a queue
 * of its own waits for whatever served it, closes it and frees it.
 */
#include <linux/mutex.h>
#include <linux/wait.h>
#include "echo.h"

static const struct echo_model *model;
static struct workqueue_struct *queue;
/*
 * Of both lists and of the count. A mutex, as shutting a socket down may sleep,
 * and as everything that takes it may: callbacks of sockets do not come here.
 */
static DEFINE_MUTEX(lock);
static LIST_HEAD(open_conns);
static LIST_HEAD(finished_conns);
static unsigned int live;
static DECLARE_WAIT_QUEUE_HEAD(all_gone);

static void let_go(struct echo_conn *conn)
{
	echo_conn_free(conn);
	mutex_lock(&lock);
	WRITE_ONCE(live, live - 1);
	mutex_unlock(&lock);
	wake_up_all(&all_gone);
}

static void reap(struct work_struct *work)
{
	struct echo_conn *conn;

	for (;;) {
		mutex_lock(&lock);
		conn = list_first_entry_or_null(&finished_conns, struct echo_conn, list);
		if (conn)
			list_del_init(&conn->list);
		mutex_unlock(&lock);
		if (!conn)
			return;
		model->settle(conn);
		let_go(conn);
		cond_resched();
	}
}

static DECLARE_WORK(reap_work, reap);

/* Before the connection is given to its model, which may finish it at once. */
void echo_reaper_add(struct echo_conn *conn)
{
	mutex_lock(&lock);
	list_add_tail(&conn->list, &open_conns);
	WRITE_ONCE(live, live + 1);
	mutex_unlock(&lock);
}

/* Of a connection that was added, and that its model would not have. */
void echo_reaper_refuse(struct echo_conn *conn)
{
	mutex_lock(&lock);
	list_del_init(&conn->list);
	mutex_unlock(&lock);
	let_go(conn);
}

/* Once for each connection that a model has begun to serve, as its last word. */
void echo_conn_finish(struct echo_conn *conn)
{
	mutex_lock(&lock);
	list_move_tail(&conn->list, &finished_conns);
	mutex_unlock(&lock);
	queue_work(queue, &reap_work);
}

unsigned int echo_reaper_live(void)
{
	return READ_ONCE(live);
}

/*
 * Ends every connection and waits until all are gone. None may be added any
 * more. What waits for a socket is woken by its shutdown; a work item that has
 * not begun yet begins when another one has ended, and finds its socket shut.
 */
void echo_reaper_close_all(void)
{
	struct echo_conn *conn;

	mutex_lock(&lock);
	list_for_each_entry(conn, &open_conns, list)
		kernel_sock_shutdown(conn->sock, SHUT_RDWR);
	mutex_unlock(&lock);
	wait_event(all_gone, echo_reaper_live() == 0);
}

int echo_reaper_init(const struct echo_model *of)
{
	model = of;
	queue = alloc_workqueue("plimsoll_reap", WQ_UNBOUND, 1);
	return queue ? 0 : -ENOMEM;
}

/* Waits for the reaper's last words, too. */
void echo_reaper_exit(void)
{
	destroy_workqueue(queue);
}
