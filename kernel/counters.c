// SPDX-License-Identifier: GPL-2.0
/*
 * What was done, counted on each CPU and added up in /proc/plimsoll_echo, a
 * name and a value a line. Nothing is printed for a connection or a message:
 * on a console that costs more than the echo itself.
 */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include "echo.h"

#define PROC_NAME "plimsoll_echo"

DEFINE_PER_CPU(struct echo_counts, echo_counts);

static const char *const names[ECHO_COUNTERS] = {
	[ECHO_ACCEPTED] = "accepted",
	[ECHO_RELEASED] = "released",
	[ECHO_RECV] = "recv",
	[ECHO_RECV_BYTES] = "recv_bytes",
	[ECHO_SEND] = "send",
	[ECHO_SEND_BYTES] = "send_bytes",
	[ECHO_SEND_PARTIAL] = "send_partial",
	[ECHO_SHUTDOWN] = "shutdown",
	[ECHO_ERR_ACCEPT] = "error_accept",
	[ECHO_ERR_MEMORY] = "error_memory",
	[ECHO_ERR_START] = "error_start",
	[ECHO_ERR_RECV_RESET] = "error_recv_reset",
	[ECHO_ERR_RECV] = "error_recv",
	[ECHO_ERR_SEND_RESET] = "error_send_reset",
	[ECHO_ERR_SEND] = "error_send",
};

static int show(struct seq_file *file, void *unused)
{
	int counter;

	for (counter = 0; counter < ECHO_COUNTERS; counter++) {
		u64 sum = 0;
		int cpu;

		for_each_possible_cpu(cpu)
			sum += per_cpu(echo_counts, cpu).of[counter];
		seq_printf(file, "%s %llu\n", names[counter], sum);
	}
	seq_printf(file, "live %u\n", echo_reaper_live());
	return 0;
}

int echo_counters_init(void)
{
	return proc_create_single(PROC_NAME, 0444, NULL, show) ? 0 : -ENOMEM;
}

void echo_counters_exit(void)
{
	remove_proc_entry(PROC_NAME, NULL);
}
