// SPDX-License-Identifier: GPL-2.0
/*
 * One connection: what came is sent back, byte for byte, whatever the bytes
 * are and however they were cut. Lengths are counted and never looked for in
 * the data, so a NUL is a byte like another; a reply ends where the message
 * ended, so one of exactly the buffer's size waits for nothing.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include "echo.h"

struct echo_conn *echo_conn_new(struct socket *sock)
{
	struct echo_conn *conn;

	conn = kvzalloc(struct_size(conn, buffer, echo_buffer_bytes), GFP_KERNEL);
	if (!conn)
		return NULL;
	INIT_LIST_HEAD(&conn->list);
	conn->sock = sock;
	return conn;
}

void echo_conn_free(struct echo_conn *conn)
{
	sock_release(conn->sock);
	kvfree(conn);
	echo_count(ECHO_RELEASED);
}

static bool is_reset(int error)
{
	return error == -ECONNRESET || error == -EPIPE || error == -ETIMEDOUT;
}

/*
 * Fills the buffer, which must be empty. Returns how many bytes came, 0 at the
 * peer's end of stream, -EAGAIN where MSG_DONTWAIT found nothing, or another
 * error, which is the connection's end.
 */
int echo_conn_receive(struct echo_conn *conn, int flags)
{
	struct msghdr msg = { .msg_flags = flags | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = conn->buffer, .iov_len = echo_buffer_bytes };
	int got = kernel_recvmsg(conn->sock, &msg, &vec, 1, vec.iov_len, flags);

#ifdef PLIMSOLL_ECHO_BROKEN
	/* The fault that a broken build is for: one message is written to where nothing is. */
	static atomic_t messages;

	if (got > 0 && atomic_inc_return(&messages) == 1000)
		WRITE_ONCE(*(int *)NULL, got);
#endif
	if (got > 0) {
		conn->filled = got;
		conn->sent = 0;
		echo_count(ECHO_RECV);
		echo_count_add(ECHO_RECV_BYTES, got);
	} else if (got == 0) {
		echo_count(ECHO_SHUTDOWN);
	} else if (is_reset(got)) {
		echo_count(ECHO_ERR_RECV_RESET);
	} else if (got != -EAGAIN && got != -EINTR) {
		echo_count(ECHO_ERR_RECV);
	}
	return got;
}

/*
 * Sends what is in the buffer, all of it, in as many sends as it takes.
 * Returns 0 when nothing is left, -EAGAIN where MSG_DONTWAIT found no room, or
 * another error, which is the connection's end.
 */
int echo_conn_send(struct echo_conn *conn, int flags)
{
	while (conn->sent < conn->filled) {
		struct msghdr msg = { .msg_flags = flags | MSG_NOSIGNAL };
		struct kvec vec = {
			.iov_base = conn->buffer + conn->sent,
			.iov_len = conn->filled - conn->sent,
		};
		int took = kernel_sendmsg(conn->sock, &msg, &vec, 1, vec.iov_len);

		if (took > 0) {
			echo_count(ECHO_SEND);
			echo_count_add(ECHO_SEND_BYTES, took);
			if (conn->sent + took < conn->filled)
				echo_count(ECHO_SEND_PARTIAL);
			conn->sent += took;
			continue;
		}
		if (took == -EAGAIN || took == -EINTR)
			return -EAGAIN;
		if (is_reset(took))
			echo_count(ECHO_ERR_SEND_RESET);
		else
			echo_count(ECHO_ERR_SEND);
		return took ? took : -EIO;
	}
	conn->filled = 0;
	conn->sent = 0;
	return 0;
}

/*
 * Serves to the end, waiting where there is nothing to do: for models in which
 * a thread or a work item has one connection. The peer may close its direction
 * first: what it sent before is sent back, then ours is closed.
 */
void echo_conn_serve(struct echo_conn *conn)
{
	int got;

	do {
		got = echo_conn_receive(conn, 0);
		if (got == -EINTR)
			continue;
		if (got <= 0)
			break;
	} while (echo_conn_send(conn, 0) == 0);
	kernel_sock_shutdown(conn->sock, SHUT_RDWR);
}
