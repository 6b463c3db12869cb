// SPDX-License-Identifier: GPL-2.0
/*
 * model=callback: a work item for each readable event. The socket calls when
 * bytes came, when there is room again, and when its state changed; then a work
 * item does what can be done without waiting, and ends. A silent client costs
 * its memory and nothing else.
 */
#include "echo.h"

/* So many buffers in a row of one connection; then others have their turn. */
#define ROUNDS 16

static void poke(struct sock *sk)
{
	struct echo_conn *conn = sk->sk_user_data;

	if (conn)
		queue_work(echo_workqueue, &conn->work);
}

static void data_ready(struct sock *sk)
{
	read_lock_bh(&sk->sk_callback_lock);
	poke(sk);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void write_space(struct sock *sk)
{
	struct echo_conn *conn;

	read_lock_bh(&sk->sk_callback_lock);
	conn = sk->sk_user_data;
	if (conn) {
		if (sk_stream_is_writeable(sk))
			queue_work(echo_workqueue, &conn->work);
		/* It takes back the mark that we wait for room. */
		conn->old_write_space(sk);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

static void state_change(struct sock *sk)
{
	struct echo_conn *conn;

	read_lock_bh(&sk->sk_callback_lock);
	conn = sk->sk_user_data;
	if (conn) {
		conn->old_state_change(sk);
		poke(sk);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

static void listen_to(struct echo_conn *conn)
{
	struct sock *sk = conn->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	conn->old_data_ready = sk->sk_data_ready;
	conn->old_write_space = sk->sk_write_space;
	conn->old_state_change = sk->sk_state_change;
	sk->sk_user_data = conn;
	sk->sk_data_ready = data_ready;
	sk->sk_write_space = write_space;
	sk->sk_state_change = state_change;
	write_unlock_bh(&sk->sk_callback_lock);
}

/* After it the socket calls us no more, nor is any call under way. */
static void stop_listening(struct echo_conn *conn)
{
	struct sock *sk = conn->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = NULL;
	sk->sk_data_ready = conn->old_data_ready;
	sk->sk_write_space = conn->old_write_space;
	sk->sk_state_change = conn->old_state_change;
	write_unlock_bh(&sk->sk_callback_lock);
}

/* Echoes what can be echoed without waiting: 0 for later, else its end. */
static int echo_some(struct echo_conn *conn)
{
	int round;

	for (round = 0; round < ROUNDS; round++) {
		int got = echo_conn_send(conn, MSG_DONTWAIT);

		if (got == 0) {
			got = echo_conn_receive(conn, MSG_DONTWAIT);
			if (got > 0)
				continue;
			if (got == 0)
				return -ESHUTDOWN;
		}
		/* The socket calls when there is more to read, or room again. */
		return got == -EAGAIN || got == -EINTR ? 0 : got;
	}
	queue_work(echo_workqueue, &conn->work);
	return 0;
}

static void work(struct work_struct *item)
{
	struct echo_conn *conn = container_of(item, struct echo_conn, work);

	if (conn->is_finished || echo_some(conn) == 0)
		return;
	conn->is_finished = true;
	stop_listening(conn);
	kernel_sock_shutdown(conn->sock, SHUT_RDWR);
	echo_conn_finish(conn);
}

static int start(struct echo_conn *conn)
{
	INIT_WORK(&conn->work, work);
	listen_to(conn);
	/* For what came, or happened, before the socket could call. */
	queue_work(echo_workqueue, &conn->work);
	return 0;
}

static void settle(struct echo_conn *conn)
{
	/* A call may have come between the last look and stop_listening(). */
	cancel_work_sync(&conn->work);
}

const struct echo_model echo_model_callback = {
	.name = "callback",
	.start = start,
	.settle = settle,
};
