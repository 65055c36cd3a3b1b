/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking at words without a system call, and noticing when the scheduler took
 * the CPU meanwhile.  Only wait.c calls this.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct wait;

enum spun {
	SPUN_HIT, /* a word changed */
	SPUN_DUE, /* a source's date came */
	SPUN_MISS, /* the end came, or the CPU was lost */
};

/*
 * At most @batches batches of looks, each some 200 ns, without reading the
 * clock.  True if a word changed; *ns is how long it took, about.
 */
bool spin_free(struct wait *wait, unsigned batches, uint64_t *ns);

/*
 * Spin from @now, just read, until a word changes or @end.  @started is when
 * the spin began for the counters; a miss is the caller's to count.  *out is
 * when it ended: before @end if the CPU was lost or the governor said no.
 */
enum spun spin_until(struct wait *wait, uint64_t started, uint64_t now,
		     uint64_t end, uint64_t due, uint64_t *out);

/* The CPU was lost lately: somebody else needs it more.  Reads the clock if so.
 */
bool spin_is_unwelcome(struct wait *wait);
