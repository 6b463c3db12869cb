// SPDX-License-Identifier: GPL-2.0
/*
 * model=kthread: a kernel thread for each connection. No limit but that of
 * threads, and the price of one each.
 */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include "echo.h"

static int serve(void *data)
{
	struct echo_conn *conn = data;

	echo_conn_serve(conn);
	echo_conn_finish(conn);
	/*
	 * The thread ends when the reaper has asked it to: one that ends by itself
	 * may still be on its way out through this module when that is unloaded.
	 */
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static int start(struct echo_conn *conn)
{
	struct task_struct *task = kthread_create(serve, conn, "plimsoll_conn");

	if (IS_ERR(task))
		return PTR_ERR(task);
	/* Before it runs: it may be finished, and asked to stop, at once. */
	conn->task = task;
	wake_up_process(task);
	return 0;
}

static void settle(struct echo_conn *conn)
{
	kthread_stop(conn->task);
}

const struct echo_model echo_model_kthread = {
	.name = "kthread",
	.start = start,
	.settle = settle,
};
