/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What --verify writes and expects to read: each 512-byte sector says where it
 * belongs and when it was written, and the expectation is a generation for
 * each block.  Pure but for the memory it allocates.
 *
 * A sector is 64 little-endian words: STAMPS_MAGIC, its number, its
 * generation, the run's salt, then 60 words that follow from these.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define STAMPS_SECTOR 512u
#define STAMPS_MAGIC UINT64_C(0x706d6174736b6c62) /* "blkstamp" */

struct stamps {
	uint64_t block_sect; /* sectors that are written together */
	uint64_t nr_blocks;
	uint64_t salt; /* of this run: what an earlier one left is wrong */
	uint32_t *blocks; /* generation and flags */
};

struct stamps_found {
	uint64_t magic, sector, generation, salt;
};

/* All blocks are at generation 0.  0 or -ENOMEM. */
int stamps_init(struct stamps *s, uint64_t block_bytes, uint64_t nr_blocks,
		uint64_t salt);
void stamps_fini(struct stamps *s);

uint32_t stamps_generation(const struct stamps *s, uint64_t block);

/* The write that carries @generation was answered: what stands there now. */
void stamps_written(struct stamps *s, uint64_t block, uint32_t generation);
/* A write failed: old, new or some of both may stand there. */
void stamps_unsure(struct stamps *s, uint64_t block);
/* A discard was answered, or failed: zeros may stand there. */
void stamps_discarded(struct stamps *s, uint64_t block);

/* Fill @len bytes of @data as @sector and what follows at @generation. */
void stamps_fill(const struct stamps *s, void *data, uint64_t sector,
		 size_t len, uint32_t generation);

/*
 * Sectors of @len bytes read from @sector on that are not what must stand
 * there; the first one is described in @bad and @found.
 */
unsigned stamps_check(const struct stamps *s, const void *data, uint64_t sector,
		      size_t len, uint64_t *bad, struct stamps_found *found);
