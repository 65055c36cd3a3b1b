/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules that hold for every format: see image.h.  Knows no format, no
 * path and no guest.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include "drivers/image.h"
#include "poll/log.h"

enum {
	SECTOR = 512,
};

struct image {
	struct node *node;
	bool writable;
	/* ports of several threads use these: atomic, relaxed */
	int flush_err; /* of the first flush that failed for good */
	uint64_t count[NR_IO_OPS];
	uint64_t errors[NR_IO_OPS];
	uint64_t bytes[NR_IO_OPS]; /* of those without an error */
};

struct image_port {
	struct image *image;
	struct port *port;
	unsigned in_flight;
	/*
	 * One flush at a time, for itself and for its group: the kernel tells
	 * one of two concurrent ones of lost pages, and the other, which it
	 * told all is well, may end first.  Those that come meanwhile wait and
	 * then share the next.
	 */
	bool flushing;
	struct io *group; /* answered with the one in flight */
	struct io *waiting, **waiting_tail;
};

static int check_size(const char *spec, uint64_t bytes)
{
	if (!bytes) {
		log_err("%s: is empty", spec);
		return -ENODATA;
	}
	if (bytes % SECTOR) {
		log_err("%s: is %" PRIu64 " bytes, not a whole number of "
			"512-byte sectors",
			spec, bytes);
		return -EINVAL;
	}
	return 0;
}

int image_open(const char *spec, unsigned flags, struct image **out)
{
	struct image *image;
	int err;

	image = calloc(1, sizeof(*image));
	if (!image)
		return -ENOMEM;
	err = driver_open(spec, flags, &image->node);
	if (err)
		goto out;
	image->writable = !(flags & DRIVER_RDONLY);
	err = check_size(spec, image->node->info.bytes);
	if (err)
		goto out;
	*out = image;
	image = NULL;
out:
	image_close(image);
	return err;
}

void image_close(struct image *image)
{
	if (!image)
		return;
	driver_close(image->node);
	free(image);
}

const struct driver_info *image_info(const struct image *image)
{
	return &image->node->info;
}

bool image_writable(const struct image *image)
{
	return image->writable;
}

int image_port_open(struct image *image, struct wait *wait, unsigned depth,
		    struct image_port **out)
{
	struct image_port *port;
	int err;

	port = calloc(1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	port->image = image;
	port->waiting_tail = &port->waiting;
	err = port_open(image->node, wait, depth, &port->port);
	if (err) {
		free(port);
		return err;
	}
	*out = port;
	return 0;
}

void image_port_close(struct image_port *port)
{
	if (!port)
		return;
	port_close(port->port);
	free(port);
}

static void count(struct image *image, const struct io *io, int err)
{
	enum io_op op = io->op;

	__atomic_fetch_add(&image->count[op], 1, __ATOMIC_RELAXED);
	if (err)
		__atomic_fetch_add(&image->errors[op], 1, __ATOMIC_RELAXED);
	else
		__atomic_fetch_add(&image->bytes[op], io->len,
				   __ATOMIC_RELAXED);
}

/*
 * A flush that a failed one overtook is failed too: whichever of them was told
 * of the lost pages, no flush that ends after that may say that all is well.
 */
static int flush_result(struct image *image, int err)
{
	int none = 0;

	if (err && !io_refused(err))
		__atomic_compare_exchange_n(&image->flush_err, &none, err,
					    false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	if (!err && __atomic_load_n(&image->flush_err, __ATOMIC_RELAXED))
		err = -EIO;
	return err;
}

/* io is over: to its submitter. */
static void end(struct io *io, int err)
{
	struct image_port *port = io->image;

	count(port->image, io, err);
	port->in_flight--;
	io->done = io->answer;
	io->done(io, err);
}

static void image_done(struct io *io, int err)
{
	end(io, err);
}

static void flush_done(struct io *io, int err);

/* Start one flush for all that wait. */
static void start_flush(struct image_port *port)
{
	struct io *io = port->waiting;

	if (!io || port->flushing)
		return;
	port->group = io->next;
	port->waiting = NULL;
	port->waiting_tail = &port->waiting;
	port->flushing = true;
	io->done = flush_done;
	port_submit(port->port, io);
}

static void flush_done(struct io *io, int err)
{
	struct image_port *port = io->image;
	struct io *group = port->group, *next;

	err = flush_result(port->image, err);
	port->group = NULL;
	port->flushing = false;
	for (end(io, err); group; group = next) {
		next = group->next;
		end(group, err);
	}
	start_flush(port);
}

static int check(const struct image *image, const struct io *io)
{
	const struct driver_info *info = &image->node->info;

	if (io->op == IO_FLUSH)
		return __atomic_load_n(&image->flush_err, __ATOMIC_RELAXED)
			       ? -EIO
			       : 0;
	if ((io->offset | io->len) & (info->logical_block - 1))
		return -EINVAL;
	if (io->len > info->bytes || io->offset > info->bytes - io->len)
		return -EIO;
	if (io->op == IO_READ)
		return 0;
	if (!image->writable)
		return -EPERM;
	if (io->op == IO_DISCARD && !info->discard_granularity)
		return -EOPNOTSUPP;
	return 0;
}

void image_submit(struct image_port *port, struct io *io)
{
	int err = check(port->image, io);

	io->image = port;
	io->answer = io->done;
	io->done = image_done;
	port->in_flight++;
	if (err || (!io->len && io->op != IO_FLUSH)) {
		end(io, err); /* drivers never see an empty range */
	} else if (io->op == IO_FLUSH) {
		io->next = NULL;
		*port->waiting_tail = io;
		port->waiting_tail = &io->next;
		start_flush(port);
	} else {
		port_submit(port->port, io);
	}
}

unsigned image_turn(struct image_port *port)
{
	return port_turn(port->port);
}

unsigned image_in_flight(const struct image_port *port)
{
	return port->in_flight;
}

/* Past the last layer there are zeros. */
static enum extent_kind kind_of(const struct extent *extent)
{
	return extent->kind == EXTENT_PARENT ? EXTENT_ZERO : extent->kind;
}

/*
 * Join, cut to @len, and move borders to whole blocks, in favour of data:
 * where data ends or begins within a block, all of the block is.
 */
static unsigned tidy(struct extent *extents, unsigned n, uint64_t len,
		     uint64_t block)
{
	uint64_t at = 0, end, told = 0;
	enum extent_kind kind;
	unsigned m = 0;

	for (unsigned i = 0; i < n && told < len; i++) {
		kind = kind_of(&extents[i]);
		at += extents[i].len;
		end = kind == EXTENT_DATA ? (at + block - 1) & ~(block - 1)
					  : at & ~(block - 1);
		if (end > len)
			end = len;
		if (end <= told)
			continue;
		if (m && extents[m - 1].kind == kind)
			extents[m - 1].len += end - told;
		else
			extents[m++] = (struct extent){ end - told, kind };
		told = end;
	}
	return m;
}

int image_extents(struct image_port *port, uint64_t offset, uint64_t len,
		  struct extent *out, unsigned max)
{
	const struct io io = { .op = IO_READ, .offset = offset, .len = len };
	const struct driver_info *info = &port->image->node->info;
	int n, err;

	err = check(port->image, &io);
	if (err || !len)
		return err ? err : -EINVAL;
	n = port_extents(port->port, offset, len, out, max);
	if (n < 0)
		return n;
	n = (int)tidy(out, (unsigned)n, len, info->logical_block);
	if (n)
		return n;
	/* pieces of one block's beginning are all there was room for */
	*out = (struct extent){ info->logical_block, EXTENT_DATA };
	return 1;
}

unsigned image_stats(const struct image *image,
		     struct image_layer_stats *layers, unsigned max)
{
	const struct node *node = image->node;

	if (!max)
		return 0;
	while (node->driver->below == DRIVER_ON_SPEC)
		node = node->below;
	*layers = (struct image_layer_stats){
		.name = node->arg,
		.driver = node->driver->name,
		.driver_type = node->driver->stats_type,
		.reads = __atomic_load_n(&image->count[IO_READ],
					 __ATOMIC_RELAXED),
		.writes = __atomic_load_n(&image->count[IO_WRITE],
					  __ATOMIC_RELAXED),
		.read_bytes = __atomic_load_n(&image->bytes[IO_READ],
					      __ATOMIC_RELAXED),
		.write_bytes = __atomic_load_n(&image->bytes[IO_WRITE],
					       __ATOMIC_RELAXED),
		.read_errors = __atomic_load_n(&image->errors[IO_READ],
					       __ATOMIC_RELAXED),
		.write_errors = __atomic_load_n(&image->errors[IO_WRITE],
						__ATOMIC_RELAXED),
	};
	return 1;
}
