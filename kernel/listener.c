// SPDX-License-Identifier: GPL-2.0
/*
 * The listening socket, and the thread that takes connections from it. It is
 * the same for every model, so that what differs is how they are served.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/in.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/tcp.h>
#include <net/net_namespace.h>
#include "echo.h"

/* After an accept that failed for want of something, for that to come back. */
#define PAUSE_MS 10

unsigned int echo_refuse_every;
static const struct echo_model *model;
static struct socket *listener;
static struct task_struct *acceptor;
static bool is_closing;

static void take(struct socket *sock)
{
	static unsigned int taken;
	struct echo_conn *conn = NULL;

	/* A reply is sent when it is there, as every server of this kind does. */
	tcp_sock_set_nodelay(sock->sk);
	taken++;
	if (!echo_refuse_every || taken % echo_refuse_every)
		conn = echo_conn_new(sock);
	if (!conn) {
		echo_count(ECHO_ERR_MEMORY);
		sock_release(sock);
		return;
	}
	echo_count(ECHO_ACCEPTED);
	echo_reaper_add(conn);
	if (model->start(conn)) {
		echo_count(ECHO_ERR_START);
		echo_reaper_refuse(conn);
	}
}

static int accept_all(void *unused)
{
	while (!READ_ONCE(is_closing)) {
		struct socket *sock;
		int error = kernel_accept(listener, &sock, 0);

		if (!error) {
			take(sock);
		} else if (error != -EINTR && error != -EAGAIN && !READ_ONCE(is_closing)) {
			echo_count(ECHO_ERR_ACCEPT);
			msleep(PAUSE_MS);
		}
	}
	/* The end of a thread is waited for by who stops it: see kthread.c. */
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

int echo_listener_open(__be32 address, u16 port, int backlog)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = address,
		.sin_port = htons(port),
	};
	int error;

	/*
	 * Of the first network namespace, which lasts as long as the kernel: a
	 * socket of the kernel's own does not keep another one alive.
	 */
	error = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &listener);
	if (error)
		return error;
	sock_set_reuseaddr(listener->sk);
	error = kernel_bind(listener, (struct sockaddr *)&at, sizeof(at));
	if (!error)
		error = kernel_listen(listener, backlog);
	if (error)
		sock_release(listener);
	return error;
}

int echo_listener_start(const struct echo_model *of)
{
	struct task_struct *task;

	model = of;
	task = kthread_run(accept_all, NULL, "plimsoll_accept");
	if (IS_ERR(task))
		return PTR_ERR(task);
	acceptor = task;
	return 0;
}

/* No connection is taken any more. */
void echo_listener_stop(void)
{
	WRITE_ONCE(is_closing, true);
	/* It wakes the accept that waits, and fails every later one. */
	kernel_sock_shutdown(listener, SHUT_RDWR);
	kthread_stop(acceptor);
}

void echo_listener_close(void)
{
	sock_release(listener);
}
