// SPDX-License-Identifier: GPL-2.0
/*
 * model=workqueue: a work item for each connection, from its first byte to its
 * last. A work item that waits for a silent client counts as under way, and a
 * queue has no more than max_active of these: with as many silent clients
 * nobody else is answered. This is the limit to be shown; model=callback does
 * not have it.
 */
#include "echo.h"

static void serve(struct work_struct *work)
{
	struct echo_conn *conn = container_of(work, struct echo_conn, work);

	echo_conn_serve(conn);
	echo_conn_finish(conn);
}

static int start(struct echo_conn *conn)
{
	INIT_WORK(&conn->work, serve);
	queue_work(echo_workqueue, &conn->work);
	return 0;
}

static void settle(struct echo_conn *conn)
{
	flush_work(&conn->work);
}

const struct echo_model echo_model_workqueue = {
	.name = "workqueue",
	.start = start,
	.settle = settle,
};
