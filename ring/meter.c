/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sequence lock with one writer: the number is odd while the counts are
 * written, and a reader that sees it odd, or changed, reads again.
 */
#include "ring/meter.h"

#include "poll/counter.h"
#include "poll/relax.h"

enum { WORDS = sizeof(struct meter_counts) / sizeof(uint64_t) };

void meter_took(struct meter *meter, enum meter_latency what, uint64_t ns,
		uint32_t weight)
{
	struct gaps_bin *bin = &meter->latency[what].bins[gaps_bin_of(ns)];

	counter_add(&bin->n, weight);
	counter_add(&bin->ns, ns * weight);
}

void meter_show(struct meter *meter)
{
	const uint64_t *from = (const uint64_t *)&meter->now;
	uint64_t *to = (uint64_t *)&meter->shown;
	uint64_t seq = meter->seq;

	__atomic_store_n(&meter->seq, seq + 1, __ATOMIC_RELAXED);
	/* orders the odd number before the counts */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (unsigned i = 0; i < WORDS; i++)
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
	/* orders the counts before the even number */
	__atomic_store_n(&meter->seq, seq + 2, __ATOMIC_RELEASE);
	meter->news = true;
}

uint64_t meter_read(const struct meter *meter, struct meter_counts *out)
{
	const uint64_t *from = (const uint64_t *)&meter->shown;
	uint64_t *to = (uint64_t *)out;
	uint64_t before, after;

	for (;;) {
		before = __atomic_load_n(&meter->seq, __ATOMIC_ACQUIRE);
		for (unsigned i = 0; i < WORDS; i++)
			to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
		/* orders the counts before the second look at the number */
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		after = __atomic_load_n(&meter->seq, __ATOMIC_RELAXED);
		if (before == after && !(before & 1))
			return before;
		relax();
	}
}
