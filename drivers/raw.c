/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Type aio: the bytes of the disk are the bytes of the store.
 *
 * A disk has 512-byte sectors whatever the store can do.  What the store takes
 * as it is passes through; the rest is cut into pieces, and a piece smaller
 * than a block of the store is read, changed and written back.  Writes that
 * are smaller than a physical block, and on a store with large blocks all
 * writes, lock the blocks they touch: else one could write back what another
 * has just replaced.  The locks belong to the image, because ports of several
 * threads write to it.
 *
 * Knows nothing of files and of how the store waits.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "drivers/drivers.h"
#include "drivers/inbox.h"
#include "drivers/ranges.h"
#include "poll/log.h"

enum {
	SECTOR = 512,
	PAGE = 4096,
	BOUNCE_MAX = 1 << 20,
};

struct raw {
	struct ranges ranges;
	uint32_t block; /* the store's logical one */
	uint32_t lock_block;
};

struct raw_port {
	struct raw *raw;
	struct port *below;
	struct inbox inbox; /* ranges that were granted */
};

/* An io that does not simply pass through. */
struct raw_op {
	struct mail mail; /* first: comes back when its range is granted */
	struct range range;
	bool locked;
	struct raw_port *port;
	struct io *parent;
	uint64_t at, end; /* what is left to do, absolute */
	uint64_t piece; /* how much of it the io below does */
	bool partial; /* the piece is a part of a block */
	struct io io; /* below */
	char *bounce;
	uint64_t bounce_size;
};

static int raw_open(const char *arg, struct node *below, unsigned flags,
		    struct driver_info *info, void **priv)
{
	struct raw *raw;

	(void)flags;
	if (info->bytes % SECTOR == 0 && info->bytes % info->logical_block) {
		log_err("aio: %s: is %" PRIu64 " bytes, not a whole number of "
			"%u-byte blocks",
			arg, info->bytes, info->logical_block);
		return -EINVAL;
	}
	raw = calloc(1, sizeof(*raw));
	if (!raw)
		return -ENOMEM;
	ranges_init(&raw->ranges);
	raw->block = below->info.logical_block;
	raw->lock_block = below->info.physical_block;
	if (raw->lock_block < raw->block)
		raw->lock_block = raw->block;
	info->logical_block = SECTOR;
	*priv = raw;
	return 0;
}

static void raw_close(void *priv)
{
	struct raw *raw = priv;

	ranges_fini(&raw->ranges);
	free(raw);
}

static int raw_port_open(struct port *port)
{
	struct raw_port *p;
	int err;

	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->raw = port->node->priv;
	p->below = port->below;
	err = inbox_open(&p->inbox, port->wait);
	if (err) {
		free(p);
		return err;
	}
	port->priv = p;
	return 0;
}

static void raw_port_close(struct port *port)
{
	struct raw_port *p = port->priv;

	ranges_settle(&p->raw->ranges);
	inbox_close(&p->inbox);
	free(p);
}

static void end(struct raw_op *op, int err)
{
	struct io *parent = op->parent;

	if (op->locked)
		ranges_unlock(&op->port->raw->ranges, &op->range);
	free(op->bounce);
	free(op);
	parent->done(parent, err);
}

static void next(struct raw_op *op);

/* Where the piece is in the submitter's buffer. */
static char *place(const struct raw_op *op)
{
	return (char *)op->parent->buf + (op->at - op->parent->offset);
}

/* The block is in the bounce buffer: put the piece into it. */
static void change(struct raw_op *op)
{
	char *in_block = op->bounce + (op->at - op->io.offset);

	if (op->parent->op == IO_WRITE)
		memcpy(in_block, place(op), op->piece);
	else
		memset(in_block, 0, op->piece);
	op->io.op = IO_WRITE;
	port_submit(op->port->below, &op->io);
}

static void piece_done(struct io *io, int err)
{
	struct raw_op *op =
		(struct raw_op *)((char *)io - offsetof(struct raw_op, io));

	if (err) {
		end(op, err);
		return;
	}
	if (op->partial && io->op == IO_READ && op->parent->op != IO_READ) {
		change(op);
		return;
	}
	if (op->parent->op == IO_READ && io->buf == op->bounce)
		memcpy(place(op), op->bounce + (op->at - io->offset),
		       op->piece);
	op->at += op->piece;
	next(op);
}

static void submit_piece(struct raw_op *op, enum io_op io_op, uint64_t offset,
			 uint64_t len, void *buf)
{
	op->io = (struct io){
		.op = io_op,
		.offset = offset,
		.len = len,
		.buf = buf,
		.done = piece_done,
	};
	port_submit(op->port->below, &op->io);
}

/* Whole blocks, from op->at on. */
static void next_whole(struct raw_op *op, uint64_t len)
{
	enum io_op io_op = op->parent->op;
	char *buf = NULL;

	if (io_op == IO_READ || io_op == IO_WRITE) {
		buf = place(op);
		if ((uintptr_t)buf & (op->port->raw->block - 1)) {
			buf = op->bounce;
			if (len > op->bounce_size)
				len = op->bounce_size;
			if (io_op == IO_WRITE)
				memcpy(buf, place(op), len);
		}
	}
	op->piece = len;
	submit_piece(op, io_op, op->at, len, buf);
}

/* Start the next piece, or end. */
static void next(struct raw_op *op)
{
	uint64_t left = op->end - op->at, block = op->port->raw->block;
	uint64_t in_block = op->at & (block - 1);

	if (!left) {
		end(op, 0);
		return;
	}
	op->partial = in_block || left < block;
	if (!op->partial) {
		next_whole(op, left & ~(block - 1));
		return;
	}
	op->piece = left < block - in_block ? left : block - in_block;
	submit_piece(op, IO_READ, op->at - in_block, block, op->bounce);
}

static void resume(struct mail *mail)
{
	next((struct raw_op *)mail);
}

/* By any thread: the op goes on in its own. */
static void granted(struct range *range)
{
	struct raw_op *op = (struct raw_op *)((char *)range -
					      offsetof(struct raw_op, range));

	mailbox_post(&op->port->inbox.box, &op->mail);
}

/* True if the store takes all of @io as it is. */
static bool suits(const struct io *io, uint64_t from, uint64_t to,
		  uint32_t block)
{
	uint64_t all = io->offset | io->len | (uintptr_t)io->buf;

	return !(all & (block - 1)) && from == io->offset &&
	       to == io->offset + io->len;
}

static bool needs_lock(const struct raw *raw, const struct io *io)
{
	if (io->op == IO_READ)
		return false;
	return raw->block > SECTOR ||
	       ((io->offset | io->len) & (raw->lock_block - 1) &&
		io->op != IO_DISCARD);
}

static int make_bounce(struct raw_op *op)
{
	uint64_t block = op->port->raw->block, size = block;

	if (op->parent->op == IO_READ || op->parent->op == IO_WRITE)
		size = (op->parent->len + block - 1) & ~(block - 1);
	if (size > BOUNCE_MAX)
		size = BOUNCE_MAX;
	op->bounce_size = size;
	return -posix_memalign((void **)&op->bounce,
			       block < PAGE ? PAGE : block, size);
}

static void start(struct raw_port *p, struct io *io, uint64_t from, uint64_t to)
{
	struct raw *raw = p->raw;
	uint64_t mask = raw->lock_block - 1;
	struct raw_op *op;

	op = calloc(1, sizeof(*op));
	if (!op) {
		io->done(io, -ENOMEM);
		return;
	}
	op->mail.fn = resume;
	op->port = p;
	op->parent = io;
	op->at = from;
	op->end = to;
	if (!suits(io, from, to, raw->block) && io->op != IO_DISCARD &&
	    make_bounce(op)) {
		end(op, -ENOMEM);
		return;
	}
	op->range = (struct range){
		.start = from & ~mask,
		.end = (to + mask) & ~mask,
		.granted = granted,
	};
	op->locked = needs_lock(raw, io);
	if (!op->locked || ranges_lock(&raw->ranges, &op->range))
		next(op);
}

static void raw_submit(struct port *port, struct io *io)
{
	struct raw_port *p = port->priv;
	const struct raw *raw = p->raw;
	uint64_t from = io->offset, to = io->offset + io->len;

	if (io->op == IO_DISCARD) { /* whole blocks; the rest stays */
		from = (from + raw->block - 1) & ~(uint64_t)(raw->block - 1);
		to &= ~(uint64_t)(raw->block - 1);
		if (from >= to) {
			io->done(io, 0);
			return;
		}
	}
	if (io->op == IO_FLUSH ||
	    (suits(io, from, to, raw->block) && !needs_lock(raw, io)))
		port_submit(p->below, io);
	else
		start(p, io, from, to);
}

static int raw_extents(struct port *port, uint64_t offset, uint64_t len,
		       struct extent *out, unsigned max)
{
	return port_extents(port->below, offset, len, out, max);
}

static unsigned raw_turn(struct port *port)
{
	struct raw_port *p = port->priv;

	return inbox_turn(&p->inbox);
}

const struct driver raw_driver = {
	.name = "aio",
	.stats_type = 0,
	.below = DRIVER_ON_STORE,
	.open = raw_open,
	.close = raw_close,
	.port_open = raw_port_open,
	.port_close = raw_port_close,
	.submit = raw_submit,
	.turn = raw_turn,
	.extents = raw_extents,
};
