/* Threads of known doings, each named after what it does, for bpf_threads.rs: their states must be told so.
 *   threads BACKEND-PORT [sleeps-only | spins-only]
 * It says at which port it listens, takes one connection there, makes one to the backend's port and one to a unix socket of its
 * own, "served" in the folder where it is, and says "begun". Every thread does one thing until the process is ended. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t held_asleep = PTHREAD_MUTEX_INITIALIZER, held_running = PTHREAD_MUTEX_INITIALIZER;
static int listening, backend, path_listening, path_backend, pipes[2];

static long now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static void sleep_us(long us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };
	nanosleep(&t, NULL);
}

static void spin_us(long us)
{
	long until = now_us() + us;
	while (now_us() < until)
		;
}

static void *spins(void *unused)
{
	for (;;)
		spin_us(1000000);
}

static void *sleeps(void *unused)
{
	for (;;)
		sleep_us(20000);
}

/* Never has anything to do in the test: no event in its window. */
static void *accepts(void *unused)
{
	accept(listening, NULL, NULL);
	return NULL;
}

static void *client(void *fd)
{
	char c;
	while (read((int)(long)fd, &c, 1) == 1)
		;
	return NULL;
}

static void *asks(void *unused)
{
	char c;
	while (recv(backend, &c, 1, 0) == 1)
		;
	return NULL;
}

static void *asks_path(void *unused)
{
	char c;
	while (recv(path_backend, &c, 1, 0) == 1)
		;
	return NULL;
}

static void *serves_path(void *unused)
{
	int connection = accept(path_listening, NULL, NULL);
	for (;;) {
		sleep_us(40000);
		if (send(connection, "x", 1, 0) != 1)
			return NULL;
	}
}

static void *polls(void *unused)
{
	int set = epoll_create1(0);
	struct epoll_event event;
	for (;;)
		epoll_wait(set, &event, 1, 30);
}

static void *pipe_reads(void *unused)
{
	char c;
	while (read(pipes[0], &c, 1) == 1)
		;
	return NULL;
}

static void *pipe_writes(void *unused)
{
	for (;;) {
		sleep_us(25000);
		if (write(pipes[1], "x", 1) != 1)
			return NULL;
	}
}

static void *syncs(void *unused)
{
	char path[] = "threads-XXXXXX", block[4096] = "";
	int file = mkstemp(path);
	unlink(path);
	fcntl(file, F_SETFL, O_APPEND);
	for (;;) {
		if (write(file, block, sizeof(block)) < 0 || fsync(file))
			return NULL;
		sleep_us(3000);
	}
}

static void *holds_asleep(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&held_asleep);
		sleep_us(15000);
		pthread_mutex_unlock(&held_asleep);
		sleep_us(2000);
	}
}

static void *holds_running(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&held_running);
		spin_us(10000);
		pthread_mutex_unlock(&held_running);
		sleep_us(2000);
	}
}

static void *wants(void *mutex)
{
	for (;;) {
		pthread_mutex_lock(mutex);
		pthread_mutex_unlock(mutex);
		sleep_us(1000);
	}
}

/* Threads that live for 10 ms, one after the other. */
static void *short_one(void *unused)
{
	sleep_us(10000);
	return NULL;
}

static void *parent(void *unused)
{
	pthread_t thread;
	for (;;) {
		pthread_create(&thread, NULL, short_one, NULL);
		pthread_join(thread, NULL);
	}
}

static void begin(const char *name, void *(*does)(void *), void *with)
{
	pthread_t thread;
	pthread_create(&thread, NULL, does, with);
	pthread_setname_np(thread, name);
}

int main(int count, char **given)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un path = { .sun_family = AF_UNIX, .sun_path = "served" };
	socklen_t size = sizeof(at);
	char line[8];
	int connection;
	if (count < 2)
		return 2;
	listening = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listening, (struct sockaddr *)&at, size) || listen(listening, 8))
		return 1;
	getsockname(listening, (struct sockaddr *)&at, &size);
	printf("%d\n", ntohs(at.sin_port));
	fflush(stdout);
	connection = accept(listening, NULL, NULL);
	at.sin_port = htons(atoi(given[1]));
	backend = socket(AF_INET, SOCK_STREAM, 0);
	if (connection < 0 || connect(backend, (struct sockaddr *)&at, sizeof(at)) || pipe(pipes))
		return 1;
	path_listening = socket(AF_UNIX, SOCK_STREAM, 0);
	path_backend = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(path_listening, (struct sockaddr *)&path, sizeof(path)) || listen(path_listening, 8) ||
	    connect(path_backend, (struct sockaddr *)&path, sizeof(path)))
		return 1;
	puts("begun");
	fflush(stdout);
	if (count > 2 && !strcmp(given[2], "spins-only"))
		spins(NULL);
	if (count > 2)
		sleeps(NULL);
	begin("spins", spins, NULL);
	begin("sleeps", sleeps, NULL);
	begin("accepts", accepts, NULL);
	begin("client", client, (void *)(long)connection);
	begin("asks", asks, NULL);
	begin("asks-path", asks_path, NULL);
	begin("serves-path", serves_path, NULL);
	begin("polls", polls, NULL);
	begin("pipe-reads", pipe_reads, NULL);
	begin("pipe-writes", pipe_writes, NULL);
	begin("syncs", syncs, NULL);
	begin("holds-asleep", holds_asleep, NULL);
	begin("holds-running", holds_running, NULL);
	begin("wants-asleep", wants, &held_asleep);
	begin("wants-running", wants, &held_running);
	begin("parent", parent, NULL);
	return read(0, line, sizeof(line)) < 0;
}
