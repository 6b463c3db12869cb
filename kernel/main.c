// SPDX-License-Identifier: GPL-2.0
/*
 * An echo server in the kernel, to be compared with those in user space: what
 * comes over TCP is sent back. README.md says how it is used and what it shows.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inet.h>
#include <linux/module.h>
#include <linux/string.h>
#include "echo.h"

#define BUFFER_BYTES_MAX (1024 * 1024)

static char *address = "127.0.0.1";
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "IPv4 address to listen at (127.0.0.1; 0.0.0.0: any)");

static ushort port = 7000;
module_param(port, ushort, 0444);
MODULE_PARM_DESC(port, "TCP port to listen at (7000)");

static int backlog = 4096;
module_param(backlog, int, 0444);
MODULE_PARM_DESC(backlog, "connections that may wait to be taken (4096)");

static char *model = "callback";
module_param(model, charp, 0444);
MODULE_PARM_DESC(model, "workqueue (a work item each), kthread (a thread each), callback (a work item per event)");

static char *flags = "unbound";
module_param(flags, charp, 0444);
MODULE_PARM_DESC(flags, "of the work queue, with commas: unbound or bound, highpri, cpu_intensive (unbound)");

static int max_active = 256;
module_param(max_active, int, 0444);
MODULE_PARM_DESC(max_active, "work items under way at once, of a bound queue on each CPU (256)");

unsigned int echo_buffer_bytes = 4096;
module_param_named(buffer, echo_buffer_bytes, uint, 0444);
MODULE_PARM_DESC(buffer, "bytes received at once, 1 to 1048576 (4096)");

static int fail_at;
module_param(fail_at, int, 0444);
MODULE_PARM_DESC(fail_at, "for tests: the step of loading, 1 to 5, that fails (0: none)");

module_param_named(refuse_every, echo_refuse_every, uint, 0444);
MODULE_PARM_DESC(refuse_every, "for tests: each so manieth connection finds no memory (0: none)");

struct workqueue_struct *echo_workqueue;

static const struct echo_model *const models[] = {
	&echo_model_workqueue,
	&echo_model_kthread,
	&echo_model_callback,
};

static const struct echo_model *find_model(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(models); i++) {
		if (!strcmp(model, models[i]->name))
			return models[i];
	}
	pr_err("model is workqueue, kthread or callback, not '%s'\n", model);
	return NULL;
}

static int parse_flags(unsigned int *parsed)
{
	const char *rest = flags;

	*parsed = 0;
	while (*rest) {
		size_t length = strcspn(rest, ",");

		if (length == 7 && !strncmp(rest, "unbound", length)) {
			*parsed |= WQ_UNBOUND;
		} else if (length == 7 && !strncmp(rest, "highpri", length)) {
			*parsed |= WQ_HIGHPRI;
		} else if (length == 13 && !strncmp(rest, "cpu_intensive", length)) {
			*parsed |= WQ_CPU_INTENSIVE;
		} else if (length != 5 || strncmp(rest, "bound", length)) {
			pr_err("flags are unbound, bound, highpri and cpu_intensive, with commas, not '%s'\n", flags);
			return -EINVAL;
		}
		rest += length;
		if (*rest == ',')
			rest++;
	}
	return 0;
}

static int __init echo_init(void)
{
	const struct echo_model *served_by = find_model();
	unsigned int queue_flags;
	__be32 at;
	int error;

	if (!served_by || parse_flags(&queue_flags))
		return -EINVAL;
	if (!in4_pton(address, -1, (u8 *)&at, -1, NULL)) {
		pr_err("address is an IPv4 address, such as 127.0.0.1, not '%s'\n", address);
		return -EINVAL;
	}
	if (!echo_buffer_bytes || echo_buffer_bytes > BUFFER_BYTES_MAX) {
		pr_err("buffer is 1 to %d bytes, not %u\n", BUFFER_BYTES_MAX, echo_buffer_bytes);
		return -EINVAL;
	}
	if (max_active < 1 || max_active > WQ_MAX_ACTIVE) {
		pr_err("max_active is 1 to %d, not %d\n", WQ_MAX_ACTIVE, max_active);
		return -EINVAL;
	}
	if (!port || backlog < 1) {
		pr_err("port and backlog are 1 or more, not %u and %d\n", port, backlog);
		return -EINVAL;
	}

	if (fail_at == 1)
		return -ENOMEM;
	echo_workqueue = alloc_workqueue("plimsoll_echo", queue_flags, max_active);
	if (!echo_workqueue)
		return -ENOMEM;
	error = fail_at == 2 ? -ENOMEM : echo_reaper_init(served_by);
	if (error)
		goto no_reaper;
	error = fail_at == 3 ? -ENOMEM : echo_counters_init();
	if (error)
		goto no_counters;
	error = fail_at == 4 ? -ENOMEM : echo_listener_open(at, port, backlog);
	if (error) {
		pr_err("cannot listen at %s:%u: error %d\n", address, port, -error);
		goto no_listener;
	}
	error = fail_at == 5 ? -ENOMEM : echo_listener_start(served_by);
	if (error)
		goto no_acceptor;
	pr_info("listening at %s:%u, model %s, flags %s, max_active %d\n",
		address, port, model, flags, max_active);
	return 0;

no_acceptor:
	echo_listener_close();
no_listener:
	echo_counters_exit();
no_counters:
	echo_reaper_exit();
no_reaper:
	destroy_workqueue(echo_workqueue);
	return error;
}

static void __exit echo_exit(void)
{
	echo_listener_stop();
	echo_reaper_close_all();
	echo_listener_close();
	echo_counters_exit();
	echo_reaper_exit();
	destroy_workqueue(echo_workqueue);
}

module_init(echo_init);
module_exit(echo_exit);

MODULE_DESCRIPTION("plimsoll: an echo server in the kernel");
MODULE_AUTHOR("the plimsoll authors");
MODULE_LICENSE("GPL");
