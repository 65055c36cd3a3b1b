/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block device in memory that remembers every write and flush in order, so
 * that a test can have the power cut anywhere and see what may be left.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "tests/bench/block.h"

struct fake_op {
	uint64_t offset;
	size_t len; /* 0: a flush */
	size_t at; /* of its data, in written */
};

struct fake_block {
	struct block block;
	uint8_t *bytes;
	struct fake_op *ops;
	size_t nr_ops, ops_room;
	uint8_t *written;
	size_t nr_written, written_room;
	uint64_t reads;
	int fail; /* -errno that the next calls return, 0: none */
};

/* All zeros, or a copy of @image. */
void fake_block_init(struct fake_block *f, uint64_t bytes,
		     const uint8_t *image);
void fake_block_fini(struct fake_block *f);

/* What was written after the last flush before the cut is... */
enum fake_fate { FAKE_LOST, FAKE_KEPT, FAKE_MIXED, NR_FAKE_FATES };

/*
 * The device at @image (of its size, and all zeros at first) as a power cut
 * after @nr_ops operations leaves it.  MIXED decides for each sector of each
 * write by @seed.
 */
void fake_block_cut(const struct fake_block *f, size_t nr_ops,
		    enum fake_fate fate, uint64_t seed, uint8_t *image);
