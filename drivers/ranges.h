/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks on ranges of bytes, for writers of several threads.  Whoever overlaps
 * an earlier one, granted or still waiting, waits for it: first come, first
 * served, and nobody starves.  Never logs.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct range {
	uint64_t start, end; /* bytes; end excluded */
	/*
	 * It is granted now.  Called by whichever thread gave way, under the
	 * lock of @ranges: it may only pass the news on.
	 */
	void (*granted)(struct range *range);
	/* ranges' own */
	unsigned blockers; /* earlier ones that overlap */
	struct range *next;
};

struct ranges {
	pthread_mutex_t mutex;
	struct range *oldest, **newest;
};

void ranges_init(struct ranges *ranges);
void ranges_fini(struct ranges *ranges); /* nothing is locked */

/* True: @range is granted.  False: range->granted will be called. */
bool ranges_lock(struct ranges *ranges, struct range *range);
void ranges_unlock(struct ranges *ranges, struct range *range);

/* Every call of granted that had begun has returned. */
void ranges_settle(struct ranges *ranges);
