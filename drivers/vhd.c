/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vhd:PATH or vhd:@SPEC, a VHD and its parents, read-only for now.
 *
 * A read goes from run to run: for each position the layers are asked, leaf
 * first, and the first that has the sector answers; past the last, and past
 * the end of a shorter parent, there are zeros.  Which layer is the first that
 * has anything of a block is remembered, so that thirty BATs are walked once.
 * Bitmaps are kept in a bounded cache of each port's own.
 *
 * Knows nothing of files, and of metadata only what vhd_layer checked.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "drivers/drivers.h"
#include "drivers/vhd_layer.h"
#include "poll/log.h"

enum {
	SECTOR = VHD_FORMAT_SECTOR,
	PAGE = 4096,
	BOUNCE_MAX = 1 << 20,
	NR_BITMAPS = 256, /* that a port keeps */
	PARENT_DEPTH = 16, /* io in flight in each parent; more wait */
};

struct vhd {
	struct vhd_layers all;
	uint32_t bitmap_max; /* bytes */
	/*
	 * For each block the first layer that has it, + 1; 0: not known yet.
	 * NULL: the blocks of the layers differ.  Atomic, relaxed: whoever
	 * fills in an entry writes the same.
	 */
	uint8_t *owners;
};

struct bitmap {
	uint8_t *map; /* NULL: this one was not used yet */
	unsigned layer;
	uint32_t block;
};

struct vhd_port {
	struct vhd *vhd;
	struct port *ports[VHD_LAYERS_MAX]; /* the leaf's is not ours */
	struct bitmap bitmaps[NR_BITMAPS];
};

enum op_state {
	OP_RUNNING, /* in run() */
	OP_ENDED, /* the same, and the io below has ended within submit */
	OP_WAITING, /* for the io below */
};

struct op {
	struct vhd_port *port;
	struct io *parent;
	uint64_t at, end; /* what is left */
	unsigned layer; /* that is asked about at */
	uint64_t limit; /* as far as is known, what holds for at holds */
	enum op_state state;
	bool bitmap; /* the io below reads one */
	uint64_t len, skip; /* wanted of the io below, and what is before it */
	int err;
	struct io io; /* below */
	char *bounce;
	uint64_t bounce_size;
};

static uint32_t bitmap_max(const struct vhd_layers *all)
{
	uint32_t max = 0;

	for (unsigned i = 0; i < all->n; i++)
		if (all->layers[i].bitmap > max)
			max = all->layers[i].bitmap;
	return max;
}

static bool same_blocks(const struct vhd_layers *all)
{
	for (unsigned i = 1; i < all->n; i++)
		if (!all->layers[i].flat &&
		    all->layers[i].block != all->layers[0].block)
			return false;
	return !all->layers[0].flat;
}

static void vhd_close(void *priv)
{
	struct vhd *vhd = priv;

	vhd_layer_close_all(&vhd->all);
	free(vhd->owners);
	free(vhd);
}

static int vhd_open(const char *arg, struct node *below, unsigned flags,
		    struct driver_info *info, void **priv)
{
	struct vhd *vhd;
	int err;

	if (!(flags & DRIVER_RDONLY)) {
		log_err("vhd: %s: can only be opened read-only", arg);
		return -EROFS;
	}
	vhd = calloc(1, sizeof(*vhd));
	if (!vhd)
		return -ENOMEM;
	err = vhd_layer_open_all(arg, below, flags, &vhd->all);
	if (err)
		goto out;
	vhd->bitmap_max = bitmap_max(&vhd->all);
	if (same_blocks(&vhd->all)) {
		vhd->owners = calloc(vhd->all.layers[0].blocks, 1);
		err = vhd->owners ? 0 : -ENOMEM;
	}
	if (err)
		goto out;
	info->bytes = vhd->all.layers[0].bytes;
	info->logical_block = SECTOR;
	info->physical_block = PAGE;
	info->discard_granularity = 0;
	*priv = vhd;
	vhd = NULL;
out:
	if (vhd)
		vhd_close(vhd);
	return err;
}

static void vhd_port_close(struct port *port)
{
	struct vhd_port *p = port->priv;

	for (unsigned i = 1; i < p->vhd->all.n; i++)
		port_close(p->ports[i]);
	for (unsigned i = 0; i < NR_BITMAPS; i++)
		free(p->bitmaps[i].map);
	free(p);
}

static int vhd_port_open(struct port *port)
{
	unsigned depth =
		port->depth < PARENT_DEPTH ? port->depth : PARENT_DEPTH;
	struct vhd_port *p;
	int err = 0;

	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->vhd = port->node->priv;
	p->ports[0] = port->below;
	port->priv = p;
	for (unsigned i = 1; i < p->vhd->all.n && !err; i++)
		err = port_open(p->vhd->all.layers[i].store, port->wait, depth,
				&p->ports[i]);
	if (err)
		vhd_port_close(port);
	return err;
}

static bool is_full(const struct vhd_layer *layer, uint32_t block)
{
	uint8_t bits =
		__atomic_load_n(&layer->full[block / 8], __ATOMIC_RELAXED);

	return bits & 0x80 >> block % 8;
}

static struct bitmap *slot(struct vhd_port *p, unsigned layer, uint32_t block)
{
	uint32_t hash = (block * VHD_LAYERS_MAX + layer) * 2654435761u;

	return &p->bitmaps[hash >> 24];
}

static const uint8_t *find_bitmap(struct vhd_port *p, unsigned layer,
				  uint32_t block)
{
	const struct bitmap *bitmap = slot(p, layer, block);

	return bitmap->map && bitmap->layer == layer && bitmap->block == block
		       ? bitmap->map
		       : NULL;
}

/* Keep what was read, in place of what was kept there. */
static int keep_bitmap(struct op *op, const char *bytes)
{
	struct vhd *vhd = op->port->vhd;
	struct vhd_layer *layer = &vhd->all.layers[op->layer];
	uint32_t block = (uint32_t)(op->at / layer->block);
	struct bitmap *bitmap = slot(op->port, op->layer, block);
	uint32_t sectors = layer->block / SECTOR;

	if (!bitmap->map)
		bitmap->map = malloc(vhd->bitmap_max);
	if (!bitmap->map)
		return -ENOMEM;
	memcpy(bitmap->map, bytes, layer->bitmap);
	bitmap->layer = op->layer;
	bitmap->block = block;
	if (vhd_format_bit(bitmap->map, 0) &&
	    vhd_format_run(bitmap->map, 0, sectors) == sectors)
		__atomic_fetch_or(&layer->full[block / 8],
				  (uint8_t)(0x80 >> block % 8),
				  __ATOMIC_RELAXED);
	return 0;
}

/* Where to begin to ask about a position. */
static unsigned first_layer(struct vhd *vhd, uint64_t at)
{
	const struct vhd_layer *layer = vhd->all.layers;
	uint32_t block;
	unsigned owner;

	if (!vhd->owners)
		return 0;
	block = (uint32_t)(at / layer->block);
	owner = __atomic_load_n(&vhd->owners[block], __ATOMIC_RELAXED);
	if (owner)
		return owner - 1;
	for (; owner < vhd->all.n; owner++, layer++)
		if (layer->flat || block >= layer->blocks ||
		    layer->bat[block] != VHD_FORMAT_NONE)
			break;
	__atomic_store_n(&vhd->owners[block], (uint8_t)(owner + 1),
			 __ATOMIC_RELAXED);
	return owner;
}

enum found {
	FOUND_ZEROS,
	FOUND_DATA, /* at *pos in the store of op->layer */
	FOUND_NO_BITMAP, /* that must be read first: it is at *pos */
};

/* One layer's answer; false: ask the next. */
static bool ask(struct op *op, const struct vhd_layer *layer, enum found *found,
		uint64_t *pos)
{
	uint32_t block = (uint32_t)(op->at / layer->block), first, run;
	uint64_t start = (uint64_t)block * layer->block;
	const uint8_t *map;

	if (op->limit > start + layer->block)
		op->limit = start + layer->block;
	if (layer->bat[block] == VHD_FORMAT_NONE)
		return false;
	*pos = (uint64_t)layer->bat[block] * SECTOR;
	if (!is_full(layer, block)) {
		map = find_bitmap(op->port, op->layer, block);
		*found = FOUND_NO_BITMAP;
		if (!map)
			return true;
		first = (uint32_t)(op->at - start) / SECTOR;
		run = vhd_format_run(map, first,
				     (uint32_t)(op->limit - start) / SECTOR);
		op->limit = start + (uint64_t)run * SECTOR;
		if (!vhd_format_bit(map, first))
			return false;
	}
	*pos += layer->bitmap + (op->at - start);
	*found = FOUND_DATA;
	return true;
}

/* What is from op->at to op->limit. */
static enum found find(struct op *op, uint64_t *pos)
{
	const struct vhd_layers *all = &op->port->vhd->all;
	const struct vhd_layer *layer;
	enum found found;

	for (; op->layer < all->n; op->layer++) {
		layer = &all->layers[op->layer];
		if (op->at >= layer->bytes)
			break;
		if (op->limit > layer->bytes)
			op->limit = layer->bytes;
		*pos = op->at;
		if (layer->flat)
			return FOUND_DATA;
		if (ask(op, layer, &found, pos))
			return found;
	}
	return FOUND_ZEROS;
}

/* Go on at op->at, of which nothing is known. */
static void begin_run(struct op *op)
{
	struct vhd *vhd = op->port->vhd;
	uint64_t block;

	op->layer = first_layer(vhd, op->at);
	op->limit = op->end;
	if (!vhd->owners)
		return;
	block = vhd->all.layers[0].block;
	if (op->limit - op->at > block - op->at % block)
		op->limit = op->at + block - op->at % block;
}

static char *place(const struct op *op)
{
	return (char *)op->parent->buf + (op->at - op->parent->offset);
}

static int make_bounce(struct op *op, uint64_t size, uint32_t block)
{
	if (op->bounce_size >= size)
		return 0;
	free(op->bounce);
	op->bounce = NULL;
	op->bounce_size = 0;
	if (posix_memalign((void **)&op->bounce, block < PAGE ? PAGE : block,
			   size))
		return -ENOMEM;
	op->bounce_size = size;
	return 0;
}

static void run(struct op *op);

static void below_done(struct io *io, int err)
{
	struct op *op = (struct op *)((char *)io - offsetof(struct op, io));

	op->err = err;
	if (op->state == OP_RUNNING) {
		op->state = OP_ENDED; /* run() goes on, not one call deeper */
		return;
	}
	op->state = OP_ENDED;
	run(op);
}

/* Read op->len bytes at @pos of the layer's store, or as many as fit. */
static int read_below(struct op *op, uint64_t pos)
{
	struct port *port = op->port->ports[op->layer];
	const struct driver_info *info = &port->node->info;
	uint64_t mask = info->logical_block - 1, from = pos & ~mask, to;
	void *buf = place(op);

	if (pos > info->bytes || op->len > info->bytes - pos)
		return -EIO; /* the file ends inside of a block */
	if (op->bitmap || ((pos | op->len | (uintptr_t)buf) & mask)) {
		if (pos - from + op->len > BOUNCE_MAX)
			op->len = BOUNCE_MAX - (pos - from);
		to = (pos + op->len + mask) & ~mask;
		if (make_bounce(op, to - from, info->logical_block))
			return -ENOMEM;
		buf = op->bounce;
	} else {
		to = pos + op->len;
	}
	op->skip = pos - from;
	op->io = (struct io){
		.op = IO_READ,
		.offset = from,
		.len = to - from,
		.buf = buf,
		.done = below_done,
		.at_once = op->parent->at_once,
	};
	op->state = OP_RUNNING;
	port_submit(port, &op->io);
	return 0;
}

/* The io below has ended well. */
static int take(struct op *op)
{
	if (op->bitmap)
		return keep_bitmap(op, op->bounce + op->skip);
	if (op->io.buf == op->bounce)
		memcpy(place(op), op->bounce + op->skip, op->len);
	op->at += op->len;
	if (op->at < op->end)
		begin_run(op);
	return 0;
}

/* The next thing to do about op->at: true if an io below was started. */
static bool step(struct op *op, int *err)
{
	uint64_t pos;

	switch (find(op, &pos)) {
	case FOUND_ZEROS:
		memset(place(op), 0, op->limit - op->at);
		op->at = op->limit;
		if (op->at < op->end)
			begin_run(op);
		return false;
	case FOUND_NO_BITMAP:
		op->bitmap = true;
		op->len = op->port->vhd->all.layers[op->layer].bitmap;
		break;
	case FOUND_DATA:
		op->bitmap = false;
		op->len = op->limit - op->at;
		break;
	}
	*err = read_below(op, pos);
	return !*err;
}

/* Until it has ended or waits. */
static void run(struct op *op)
{
	struct io *parent = op->parent;
	int err = 0;

	for (;;) {
		if (op->state == OP_ENDED) {
			op->state = OP_RUNNING;
			err = op->err ? op->err : take(op);
		}
		if (err || op->at == op->end)
			break;
		if (step(op, &err) && op->state != OP_ENDED) {
			op->state = OP_WAITING;
			return;
		}
		if (err)
			break;
	}
	free(op->bounce);
	free(op);
	parent->done(parent, err);
}

static void vhd_submit(struct port *port, struct io *io)
{
	struct op *op;

	if (io->op == IO_FLUSH) {
		io->done(io, 0); /* nothing is ever written */
		return;
	}
	if (io->op != IO_READ) {
		io->done(io, -EPERM);
		return;
	}
	op = calloc(1, sizeof(*op));
	if (!op) {
		io->done(io, -ENOMEM);
		return;
	}
	op->port = port->priv;
	op->parent = io;
	op->at = io->offset;
	op->end = io->offset + io->len;
	begin_run(op);
	run(op);
}

static unsigned vhd_turn(struct port *port)
{
	struct vhd_port *p = port->priv;
	unsigned n = 0;

	for (unsigned i = 1; i < p->vhd->all.n; i++)
		n += port_turn(p->ports[i]);
	return n;
}

const struct driver vhd_driver = {
	.name = "vhd",
	.stats_type = 4,
	.below = DRIVER_ON_STORE,
	.open = vhd_open,
	.close = vhd_close,
	.port_open = vhd_port_open,
	.port_close = vhd_port_close,
	.submit = vhd_submit,
	.turn = vhd_turn,
};
