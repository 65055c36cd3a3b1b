/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * null:SIZE, a disk that keeps nothing: reads give zeros, writes vanish.  It
 * costs no device time, so what is left is our own.
 */
#include <errno.h>
#include <string.h>
#include "drivers/drivers.h"
#include "drivers/options.h"
#include "poll/log.h"

static int null_open(const char *arg, struct node *below, unsigned flags,
		     struct driver_info *info, void **priv)
{
	uint64_t size;

	(void)below;
	(void)flags;
	if (options_size(arg, &size)) {
		log_err("null: \"%s\": not a size", arg);
		return -EINVAL;
	}
	*info = (struct driver_info){
		.bytes = size,
		.logical_block = 512,
		.physical_block = 512,
		.discard_granularity = 512,
	};
	*priv = NULL;
	return 0;
}

static void null_submit(struct port *port, struct io *io)
{
	(void)port;
	if (io->op == IO_READ)
		memset(io->buf, 0, io->len);
	io->done(io, 0);
}

const struct driver null_driver = {
	.name = "null",
	.stats_type = -1,
	.below = DRIVER_ON_NOTHING,
	.open = null_open,
	.submit = null_submit,
};
