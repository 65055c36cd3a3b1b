/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See dialect.h.  There is no kernel module and so no device node behind the
 * names: only what can be said without one is said.
 */
#include "tools/tap-ctl/dialect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "poll/host.h"
#include "tools/tap-ctl/options.h"
#include "tools/tap-ctl/say.h"

enum { DEVICES_SIZE = 16384 };

bool dialect_is_xcp_ng(void)
{
	const char *dialect = getenv("TAP_CTL_DIALECT");

	return dialect && !strcmp(dialect, "xcp-ng");
}

void dialect_device(int minor, char *out, size_t size)
{
	snprintf(out, size, "/dev/xen/blktap-2/tapdev%d", minor);
}

/* The number of the module's devices, from /proc/devices: "250 tapdev". */
static int run_major(const struct options *options)
{
	char text[DEVICES_SIZE], *line, *end, *rest = text;
	long major;
	ssize_t n = host_read_text("/proc/devices", text, sizeof(text));

	if (n < 0)
		return say_error(options, (int)n, "/proc/devices");
	while ((line = strsep(&rest, "\n"))) {
		major = strtol(line, &end, 10);
		if (end == line || strcmp(end, " tapdev") != 0)
			continue;
		printf("%ld\n", major);
		return 0;
	}
	return say_error(options, -ENODEV,
			 "no tapdev in /proc/devices; this tapdisk needs none");
}

/* Whether a tapdisk can work here: it needs nothing of the kernel. */
static int run_check(const struct options *options)
{
	(void)options;
	printf("ok\n");
	return 0;
}

static int run_coalesce(const struct options *options)
{
	return say_error(options, -EOPNOTSUPP,
			 "this version cannot coalesce an open image");
}

const struct command dialect_commands[] = {
	{
		.name = "major",
		.summary = "print the device number of the kernel module",
		.run = run_major,
	},
	{
		.name = "check",
		.summary = "say whether tapdisks can work here",
		.run = run_check,
	},
	{
		.name = "commit",
		.summary = "coalesce an open image; not supported",
		.run = run_coalesce,
	},
	{
		.name = "query",
		.summary = "how far a commit is; not supported",
		.run = run_coalesce,
	},
	{
		.name = "cancel",
		.summary = "end a commit; not supported",
		.run = run_coalesce,
	},
	{ .name = NULL },
};
