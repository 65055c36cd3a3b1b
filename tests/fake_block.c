/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block device in memory with a memory; see fake_block.h.
 */
#include "tests/fake_block.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/random.h"

static void check_range(const struct fake_block *f, uint64_t offset, size_t len)
{
	assert(len && offset % BLOCK_SECTOR == 0 && len % BLOCK_SECTOR == 0);
	assert(offset + len <= f->block.bytes);
}

/* Room for @n of @size bytes, and for as many more: no copy a write. */
static void *grown(void *array, size_t *room, size_t n, size_t size)
{
	if (n <= *room)
		return array;
	*room = 2 * n;
	array = realloc(array, *room * size);
	assert(array);
	return array;
}

static void remember(struct fake_block *f, uint64_t offset, const void *data,
		     size_t len)
{
	f->ops = grown(f->ops, &f->ops_room, f->nr_ops + 1, sizeof(*f->ops));
	f->ops[f->nr_ops++] = (struct fake_op){
		.offset = offset,
		.len = len,
		.at = f->nr_written,
	};
	if (!len)
		return;
	f->written =
		grown(f->written, &f->written_room, f->nr_written + len, 1);
	memcpy(f->written + f->nr_written, data, len);
	f->nr_written += len;
}

static int fake_read(struct block *block, uint64_t offset, void *data,
		     size_t len)
{
	struct fake_block *f = (struct fake_block *)block;

	check_range(f, offset, len);
	if (f->fail)
		return f->fail;
	f->reads++;
	memcpy(data, f->bytes + offset, len);
	return 0;
}

static int fake_write(struct block *block, uint64_t offset, const void *data,
		      size_t len)
{
	struct fake_block *f = (struct fake_block *)block;

	check_range(f, offset, len);
	if (f->fail)
		return f->fail;
	remember(f, offset, data, len);
	memcpy(f->bytes + offset, data, len);
	return 0;
}

static int fake_flush(struct block *block)
{
	struct fake_block *f = (struct fake_block *)block;

	if (f->fail)
		return f->fail;
	remember(f, 0, NULL, 0);
	return 0;
}

static const struct block_ops fake_ops = {
	.read = fake_read,
	.write = fake_write,
	.flush = fake_flush,
};

void fake_block_init(struct fake_block *f, uint64_t bytes, const uint8_t *image)
{
	*f = (struct fake_block){
		.block = { .ops = &fake_ops,
			   .bytes = bytes,
			   .physical = BLOCK_SECTOR },
		.bytes = calloc(1, bytes),
	};
	assert(f->bytes);
	if (image)
		memcpy(f->bytes, image, bytes);
}

void fake_block_fini(struct fake_block *f)
{
	free(f->written);
	free(f->ops);
	free(f->bytes);
}

void fake_block_cut(const struct fake_block *f, size_t nr_ops,
		    enum fake_fate fate, uint64_t seed, uint8_t *image)
{
	const struct fake_op *op;
	size_t i, flushed = nr_ops, at;

	while (flushed && f->ops[flushed - 1].len)
		flushed--;
	for (i = 0; i < nr_ops; i++) {
		op = &f->ops[i];
		for (at = 0; at < op->len; at += BLOCK_SECTOR)
			if (i < flushed || fate == FAKE_KEPT ||
			    (fate == FAKE_MIXED && random_next(&seed) & 1))
				memcpy(image + op->offset + at,
				       f->written + op->at + at, BLOCK_SECTOR);
	}
}
