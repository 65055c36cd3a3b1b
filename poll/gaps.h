/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long the waits of a data thread took: a histogram for each kind of wait
 * that is always kept, and, for whoever asks, every single one.
 *
 * Whatever the mode, the length of a wait is known when it is over, and with it
 * what any other threshold would have cost: tap-ctl polling --advise and
 * --trace are made of this.  One thread writes, any may read, without a lock.
 * Reads no clock.  Never logs.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "poll/adapt.h"

/* Steps of 64 ns below a microsecond, then 16 an octave up to 2^31 ns. */
#define GAPS_BINS 352

/* Of what a wait was for; kinds without WAIT_NOBODY, from 0. */
#define GAPS_KINDS 3

#define GAPS_TRACE_SIZE 65536

struct gaps_bin {
	uint64_t n; /* waits */
	uint64_t ns; /* and how long they took together */
};

struct gaps_histogram {
	struct gaps_bin bins[GAPS_BINS];
};

/* The last GAPS_TRACE_SIZE waits, each in one word; numbered from @first. */
struct gaps_trace {
	uint64_t first;
	uint64_t head; /* number of the next */
	uint64_t entries[GAPS_TRACE_SIZE];
};

struct gaps {
	struct gaps_histogram of[GAPS_KINDS];
	struct gaps_trace *trace; /* the writing thread's; NULL: not traced */
};

/* The wait in progress. */
struct gaps_wait {
	enum wait_kind kind; /* WAIT_NOBODY: it is not recorded */
	enum policy_op op; /* the last one taken before it */
	bool slept;
	uint64_t start_ns, end_ns; /* 0: not read */
	uint64_t spun_ns;
	int64_t delay_ns; /* of the wake, or POLICY_DELAY_UNKNOWN */
};

static inline unsigned gaps_index(enum wait_kind kind)
{
	return (unsigned)kind - WAIT_GUEST;
}

unsigned gaps_bin_of(uint64_t ns);

/* The longest wait that bin @i holds. */
uint64_t gaps_edge_ns(unsigned i);

/* The writer: a wait of @kind, not WAIT_NOBODY, took @ns. */
void gaps_add(struct gaps *gaps, enum wait_kind kind, enum policy_op op,
	      uint64_t ns);

/*
 * The writer, in the order of a wait.  Without @gaps, NULL, nothing is
 * recorded.
 *
 * A wait for @kind begins, after an operation @op; the one before ended in work
 * and is recorded.  @kind tells a completion from a request that came before
 * it. What a wake takes, @w0_ns, is no part of a wait that slept.
 */
void gaps_begin(struct gaps *gaps, struct gaps_wait *wait, enum wait_kind kind,
		enum policy_op op, uint64_t w0_ns);

/* It began at @now, unless that was known already. */
static inline void gaps_start(struct gaps_wait *wait, uint64_t now)
{
	if (!wait->start_ns)
		wait->start_ns = now;
}

/* It was spun until @now. */
static inline void gaps_spun(struct gaps_wait *wait, uint64_t now)
{
	wait->end_ns = now;
	wait->spun_ns = now - wait->start_ns;
}

/* It was over after @ns, before the clock was read. */
void gaps_quick(struct gaps *gaps, struct gaps_wait *wait, uint64_t ns);

/* Arming found work: it was over by then. */
void gaps_found(struct gaps *gaps, struct gaps_wait *wait);

/* Any thread: add what @from has to @to, which is the caller's own. */
void gaps_sum(const struct gaps_histogram *from, struct gaps_histogram *to);

struct gaps_entry {
	uint64_t ns;
	enum wait_kind kind;
	enum policy_op op;
};

/* NULL without memory.  The first wait it holds has number @first. */
struct gaps_trace *gaps_trace_new(uint64_t first);

/*
 * Any thread: at most @size entries from number *cursor on, which moves behind
 * them.  Entries that were overwritten before they could be read are counted in
 * *lost.  Returns how many there are.
 */
size_t gaps_trace_read(const struct gaps_trace *trace, uint64_t *cursor,
		       struct gaps_entry *out, size_t size, uint64_t *lost);
