/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sectors that say what they are; see stamps.h.
 */
#include "tests/bench/stamps.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/random.h"

#define WORDS (STAMPS_SECTOR / 8)
#define HEAD 4 /* words that say what the sector is */
#define UNSURE 0x80000000u
#define DISCARDED 0x40000000u
#define GENERATION 0x3fffffffu

int stamps_init(struct stamps *s, uint64_t block_bytes, uint64_t nr_blocks,
		uint64_t salt)
{
	s->block_sect = block_bytes / STAMPS_SECTOR;
	s->nr_blocks = nr_blocks;
	s->salt = salt;
	s->blocks = calloc(nr_blocks, sizeof(*s->blocks));
	return s->blocks ? 0 : -ENOMEM;
}

void stamps_fini(struct stamps *s)
{
	free(s->blocks);
	s->blocks = NULL;
}

uint32_t stamps_generation(const struct stamps *s, uint64_t block)
{
	return s->blocks[block] & GENERATION;
}

void stamps_written(struct stamps *s, uint64_t block, uint32_t generation)
{
	s->blocks[block] = generation & GENERATION;
}

void stamps_unsure(struct stamps *s, uint64_t block)
{
	s->blocks[block] |= UNSURE;
}

void stamps_discarded(struct stamps *s, uint64_t block)
{
	s->blocks[block] |= DISCARDED;
}

static uint64_t pattern(uint64_t sector, uint64_t generation, uint64_t salt)
{
	return random_mix(sector ^ random_mix(generation ^ salt));
}

static uint64_t pattern_word(uint64_t seed, unsigned i)
{
	return seed ^ (i * UINT64_C(0x9e3779b97f4a7c15));
}

void stamps_fill(const struct stamps *s, void *data, uint64_t sector,
		 size_t len, uint32_t generation)
{
	uint64_t *words = data;
	uint64_t seed;
	unsigned i;

	for (; len >= STAMPS_SECTOR; len -= STAMPS_SECTOR, sector++) {
		words[0] = htole64(STAMPS_MAGIC);
		words[1] = htole64(sector);
		words[2] = htole64(generation);
		words[3] = htole64(s->salt);
		seed = pattern(sector, generation, s->salt);
		for (i = HEAD; i < WORDS; i++)
			words[i] = htole64(pattern_word(seed, i));
		words += WORDS;
	}
}

static bool is_zero(const uint64_t *words)
{
	static const uint64_t zeros[WORDS];

	return memcmp(words, zeros, STAMPS_SECTOR) == 0;
}

/* A sector of this run that is whole, of whatever generation. */
static bool is_stamp(const struct stamps *s, const uint64_t *words,
		     uint64_t sector)
{
	uint64_t seed;
	unsigned i;

	if (le64toh(words[0]) != STAMPS_MAGIC || le64toh(words[1]) != sector ||
	    le64toh(words[3]) != s->salt)
		return false;
	seed = pattern(sector, le64toh(words[2]), s->salt);
	for (i = HEAD; i < WORDS; i++)
		if (le64toh(words[i]) != pattern_word(seed, i))
			return false;
	return true;
}

static bool is_right(const struct stamps *s, const uint64_t *words,
		     uint64_t sector)
{
	uint32_t block = s->blocks[sector / s->block_sect];

	if ((block & DISCARDED) && is_zero(words))
		return true;
	if (!is_stamp(s, words, sector))
		return false;
	return (block & UNSURE) || le64toh(words[2]) == (block & GENERATION);
}

unsigned stamps_check(const struct stamps *s, const void *data, uint64_t sector,
		      size_t len, uint64_t *bad, struct stamps_found *found)
{
	const uint64_t *words = data;
	unsigned wrong = 0;

	for (; len >= STAMPS_SECTOR; len -= STAMPS_SECTOR, sector++) {
		if (!is_right(s, words, sector) && wrong++ == 0) {
			*bad = sector;
			found->magic = le64toh(words[0]);
			found->sector = le64toh(words[1]);
			found->generation = le64toh(words[2]);
			found->salt = le64toh(words[3]);
		}
		words += WORDS;
	}
	return wrong;
}
