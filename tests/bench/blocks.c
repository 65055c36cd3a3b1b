/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which block an I/O goes to; see blocks.h.
 */
#include "tests/bench/blocks.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/bench/random.h"

int blocks_init(struct blocks *b, uint64_t nr_blocks, bool random,
		bool exclusive, uint64_t seed)
{
	*b = (struct blocks){
		.nr_blocks = nr_blocks,
		.random = random,
		.seed = seed,
	};
	if (!exclusive)
		return 0;
	b->busy = calloc(nr_blocks / 64 + 1, sizeof(*b->busy));
	return b->busy ? 0 : -ENOMEM;
}

void blocks_fini(struct blocks *b)
{
	free(b->busy);
	b->busy = NULL;
}

static bool is_busy(const struct blocks *b, uint64_t block)
{
	return b->busy[block / 64] >> block % 64 & 1;
}

int blocks_take(struct blocks *b, uint64_t *block)
{
	uint64_t at, tries;

	at = b->random ? random_below(&b->seed, b->nr_blocks) : b->cursor;
	if (b->busy) {
		/* few are busy: the next free one is near, and random enough */
		for (tries = 0; is_busy(b, at); tries++) {
			if (tries == b->nr_blocks)
				return -EBUSY;
			at = at + 1 == b->nr_blocks ? 0 : at + 1;
		}
		b->busy[at / 64] |= UINT64_C(1) << at % 64;
	}
	b->cursor = at + 1 == b->nr_blocks ? 0 : at + 1;
	*block = at;
	return 0;
}

void blocks_give(struct blocks *b, uint64_t block)
{
	if (b->busy)
		b->busy[block / 64] &= ~(UINT64_C(1) << block % 64);
}
