/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a ring's requests are and how long they take, for those who watch from
 * outside: exact counts, and histograms of latencies.
 *
 * The data thread counts, and shows its counts at the end of a turn, all of
 * them at once: a reader sees those of one moment or tries again.  No system
 * call, no lock.  A reading of the clock costs as much as a small request's
 * other book-keeping together: of requests that follow each other without a
 * sleep every METER_EVERYth is timed, and counts for as many; and one reading
 * serves all that a step of a turn handles.  Knows no file.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/clock.h"
#include "poll/gaps.h"

/* A prime: guests repeat themselves in other rhythms. */
#define METER_EVERY 7

/* What of a request's time. */
enum meter_latency {
	METER_RING, /* from the ring to the disk: copying in, order, retries */
	METER_DEVICE,
	METER_TOTAL, /* from the ring until it is answered */
	NR_METER_LATENCIES
};

struct meter_side { /* reads, or writes */
	uint64_t submitted, completed;
	uint64_t sect; /* 512 bytes, of those submitted */
	uint64_t total_ns; /* of those completed, from those timed */
	uint64_t max_ns; /* of those timed */
};

/* All uint64_t: they are copied as such. */
struct meter_counts {
	struct meter_side read, write;
	uint64_t flushes, discards; /* submitted; a barrier is a write */
	uint64_t errors; /* answered with an error by the disk */
	uint64_t req_cons, rsp_prod; /* of the ring */
};

struct meter {
	struct meter_counts now; /* the data thread's */
	uint64_t clock_ns; /* likewise; 0: it has to be read */
	uint64_t sleeps; /* likewise: as they were at the last request */
	uint32_t untimed; /* likewise: requests since one was timed */
	bool news; /* likewise: shown, and nobody was told */
	bool told; /* main knows that there is something to read */
	uint64_t seq; /* odd while .shown is written */
	struct meter_counts shown;
	struct gaps_histogram latency[NR_METER_LATENCIES];
};

/* The time of this step. */
static inline uint64_t meter_clock(struct meter *meter)
{
	if (!meter->clock_ns)
		meter->clock_ns = clock_ns();
	return meter->clock_ns;
}

/* Another step: time has passed. */
static inline void meter_step(struct meter *meter)
{
	meter->clock_ns = 0;
}

/*
 * For how many requests the one counts that comes off the ring now, after so
 * many @sleeps of its thread; 0: it is not to be timed.  The first after a
 * sleep is: that was dearer than a clock.
 */
static inline uint32_t meter_weight(struct meter *meter, uint64_t sleeps)
{
	if (meter->sleeps != sleeps) {
		meter->sleeps = sleeps;
		return 1;
	}
	if (++meter->untimed < METER_EVERY)
		return 0;
	meter->untimed = 0;
	return METER_EVERY;
}

/* A request that counts for @weight took @ns. */
void meter_took(struct meter *meter, enum meter_latency what, uint64_t ns,
		uint32_t weight);

/* The data thread, at the end of a turn that did something. */
void meter_show(struct meter *meter);

/*
 * Any thread: the counts of one moment.  Returns their number, which differs
 * for any two moments.
 */
uint64_t meter_read(const struct meter *meter, struct meter_counts *out);

/* The data thread: true if main has to be told; then it counts as told. */
static inline bool meter_must_tell(struct meter *meter)
{
	if (!meter->news || __atomic_load_n(&meter->told, __ATOMIC_ACQUIRE))
		return false;
	meter->news = false;
	__atomic_store_n(&meter->told, true, __ATOMIC_RELAXED);
	return true;
}

/*
 * Main: tell me again.  What was shown before may not be told any more: read
 * once more after this.
 */
static inline void meter_tell_me(struct meter *meter)
{
	/* orders this store before the reads that follow */
	__atomic_store_n(&meter->told, false, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
