/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sectors of a disk may hold: each a set of *stamps*, one of every
 * write that was sent and may have come, 0 for zeros.  Knows nothing of how it
 * is read or written.  Header only, for tests only.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ORACLE_SECTOR 512u
#define ORACLE_SECTORS 512u
#define ORACLE_VALUES 12u

struct oracle {
	struct {
		uint32_t may[ORACLE_VALUES];
		unsigned n;
	} sectors[ORACLE_SECTORS];
};

/* The contents of @n sectors from @first that @stamp stands for. */
static inline void oracle_fill(uint8_t *to, unsigned first, unsigned n,
			       uint32_t stamp)
{
	uint32_t words[ORACLE_SECTOR / 4] = { 0 };

	for (unsigned sector = first; n; n--, sector++, to += ORACLE_SECTOR) {
		for (unsigned i = 0; stamp && i < ORACLE_SECTOR / 4; i++)
			words[i] = stamp * 2654435761u + sector * 40503u + i;
		memcpy(to, words, ORACLE_SECTOR);
	}
}

/* They hold @stamp and nothing else. */
static inline void oracle_holds(struct oracle *o, unsigned first, unsigned n,
				uint32_t stamp)
{
	for (unsigned sector = first; n; n--, sector++) {
		o->sectors[sector].may[0] = stamp;
		o->sectors[sector].n = 1;
	}
}

/* They may hold @stamp from now on.  Room for it: see oracle_has_room. */
static inline void oracle_may_hold(struct oracle *o, unsigned first, unsigned n,
				   uint32_t stamp)
{
	for (unsigned sector = first; n; n--, sector++) {
		unsigned *nr = &o->sectors[sector].n, i;

		for (i = 0; i < *nr; i++)
			if (o->sectors[sector].may[i] == stamp)
				break;
		if (i < *nr)
			continue;
		ck_assert_uint_lt(*nr, ORACLE_VALUES);
		o->sectors[sector].may[(*nr)++] = stamp;
	}
}

/* For one more, and zeros. */
static inline bool oracle_has_room(const struct oracle *o, unsigned first,
				   unsigned n)
{
	for (; n; n--, first++)
		if (o->sectors[first].n > ORACLE_VALUES - 2)
			return false;
	return true;
}

/*
 * They were read as @got, and no write to them was on its way: what they hold
 * is known from here on.
 */
static inline void oracle_was_read(struct oracle *o, unsigned first, unsigned n,
				   const uint8_t *got)
{
	uint8_t want[ORACLE_SECTOR];

	for (unsigned sector = first; n; n--, sector++, got += ORACLE_SECTOR) {
		unsigned nr = o->sectors[sector].n, i;

		for (i = 0; i < nr; i++) {
			oracle_fill(want, sector, 1, o->sectors[sector].may[i]);
			if (!memcmp(got, want, ORACLE_SECTOR))
				break;
		}
		ck_assert_msg(i < nr, "sector %u holds none of its %u values",
			      sector, nr);
		oracle_holds(o, sector, 1, o->sectors[sector].may[i]);
	}
}
