/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault:OPTIONS;SPEC, which fails some io of what lies below, for tests.
 *
 *	op=OP		read, write, flush, discard, zeroes or any (default)
 *	from=, to=	only io that touch these bytes (k, m, g); no flush does
 *	nth=N		only the N-th io that matches, counted from 1
 *	every=N		every N-th one
 *	err=NAME	with what it ends; EIO
 *	short=BYTES	so much of a read or write is done before it ends
 *
 * An io that fails otherwise never reaches what lies below.  All ports count
 * together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "drivers/drivers.h"
#include "drivers/options.h"

struct fault {
	unsigned ops; /* 1 << enum io_op */
	bool ranged;
	uint64_t from, to;
	uint64_t nth, every; /* 0: not given */
	bool cut;
	uint64_t bytes; /* short= */
	int err;
	uint64_t matched; /* atomic */
};

/* The beginning of an io that is cut short. */
struct fault_io {
	struct io io; /* first */
	struct io *parent;
	int err;
};

static const struct {
	const char *name;
	int err;
} errors[] = {
	{ "EIO", EIO },
	{ "ENOSPC", ENOSPC },
	{ "EAGAIN", EAGAIN },
	{ "EBUSY", EBUSY },
	{ "ETIMEDOUT", ETIMEDOUT },
	{ "ENOMEM", ENOMEM },
	{ "EINTR", EINTR },
	{ "EINVAL", EINVAL },
	{ "EOPNOTSUPP", EOPNOTSUPP },
	{ "EROFS", EROFS },
	{ "EPERM", EPERM },
	{ "ENODEV", ENODEV },
	{ "ENXIO", ENXIO },
	{ "EREMOTEIO", EREMOTEIO },
	{ "ENOLINK", ENOLINK },
	{ "EILSEQ", EILSEQ },
};

static int set_op(void *priv, const char *value)
{
	struct fault *fault = priv;

	return options_ops(value, &fault->ops);
}

static int set_nth(void *priv, const char *value)
{
	struct fault *fault = priv;

	return options_number(value, &fault->nth) || !fault->nth ? -EINVAL : 0;
}

static int set_every(void *priv, const char *value)
{
	struct fault *fault = priv;

	return options_number(value, &fault->every) || !fault->every ? -EINVAL
								     : 0;
}

static int set_from(void *priv, const char *value)
{
	struct fault *fault = priv;

	fault->ranged = true;
	return options_size(value, &fault->from);
}

static int set_to(void *priv, const char *value)
{
	struct fault *fault = priv;

	fault->ranged = true;
	return options_size(value, &fault->to);
}

static int set_err(void *priv, const char *value)
{
	struct fault *fault = priv;

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (!strcmp(value, errors[i].name)) {
			fault->err = -errors[i].err;
			return 0;
		}
	return -EINVAL;
}

static int set_short(void *priv, const char *value)
{
	struct fault *fault = priv;

	fault->cut = true;
	return options_size(value, &fault->bytes);
}

static const struct option options[] = {
	{ "op", set_op },	{ "nth", set_nth }, { "every", set_every },
	{ "from", set_from },	{ "to", set_to },   { "err", set_err },
	{ "short", set_short }, { NULL, NULL },
};

static int fault_open(const char *arg, struct node *below, unsigned flags,
		      struct driver_info *info, void **priv)
{
	struct fault *fault;
	int err;

	(void)below;
	(void)flags;
	(void)info;
	fault = calloc(1, sizeof(*fault));
	if (!fault)
		return -ENOMEM;
	fault->ops = (1u << NR_IO_OPS) - 1;
	fault->to = UINT64_MAX;
	fault->err = -EIO;
	err = options_parse("fault", arg, options, fault);
	if (err) {
		free(fault);
		return err;
	}
	*priv = fault;
	return 0;
}

static void fault_close(void *priv)
{
	free(priv);
}

static bool matches(const struct fault *fault, const struct io *io)
{
	if (!(fault->ops & 1u << io->op))
		return false;
	return !fault->ranged || (io->len && io->offset < fault->to &&
				  fault->from < io->offset + io->len);
}

static bool strikes(struct fault *fault, const struct io *io)
{
	uint64_t n;

	if (!matches(fault, io))
		return false;
	n = __atomic_add_fetch(&fault->matched, 1, __ATOMIC_RELAXED);
	if (!fault->nth && !fault->every)
		return true;
	return n == fault->nth || (fault->every && n % fault->every == 0);
}

static void short_done(struct io *io, int err)
{
	struct fault_io *f = (struct fault_io *)io;
	struct io *parent = f->parent;

	if (!err)
		err = f->err;
	free(f);
	parent->done(parent, err);
}

static void fault_submit(struct port *port, struct io *io)
{
	struct fault *fault = port->node->priv;
	struct fault_io *f;

	if (!strikes(fault, io)) {
		port_submit(port->below, io);
		return;
	}
	if (!fault->cut || !fault->bytes ||
	    (io->op != IO_READ && io->op != IO_WRITE)) {
		io->done(io, fault->err);
		return;
	}
	f = malloc(sizeof(*f));
	if (!f) {
		io->done(io, -ENOMEM);
		return;
	}
	f->io = *io;
	f->io.done = short_done;
	if (f->io.len > fault->bytes)
		f->io.len = fault->bytes;
	f->parent = io;
	f->err = fault->err;
	port_submit(port->below, &f->io);
}

const struct driver fault_driver = {
	.name = "fault",
	.stats_type = -1,
	.below = DRIVER_ON_SPEC,
	.open = fault_open,
	.close = fault_close,
	.submit = fault_submit,
};
