/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What other ways of waiting would have cost, from a histogram of how long the
 * waits were, and which of them to choose.
 *
 * The cost of a wait is that of poll/policy.h; a hit has the latency of a look
 * besides.  Bins hold sums, so for a threshold at a bin's edge the figures are
 * exact.  Pure: no I/O, no clock, no log.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/gaps.h"

#define ADVISE_TURN_NS 25 /* latency of a hit: one look */
#define ADVISE_MAX_NS                                              \
	UINT64_C(8000000) /* thresholds are looked for up to this, \
			   * or the duration in force */
#define ADVISE_WAITS_MIN 100 /* fewer waits tell nothing */

/* What a sleep costs, and a nanosecond of CPU. */
struct advise_costs {
	uint32_t price, rho; /* Q16; where rho is above, it is the price */
	uint64_t w0_ns, cw_ns;
};

/* All waits together, in ns. */
struct advise_cost {
	double waits, hits;
	double latency_ns, cpu_ns;
	double cost_ns; /* latency + price * CPU */
};

enum advise_way {
	ADVISE_EVENT,
	ADVISE_FIXED_1MS,
	ADVISE_FIXED_3MS,
	ADVISE_FIXED_6MS,
	ADVISE_FIXED_8MS,
	ADVISE_STATIC, /* the one threshold that would have been best */
	ADVISE_ADAPTIVE, /* an estimate: the best for each kind of wait */
	NR_ADVISE_WAYS
};

struct advise {
	struct advise_costs costs; /* with the price that was used */
	uint64_t limit_ns; /* thresholds were looked for up to this */
	double waits;
	double kind_waits[GAPS_KINDS];
	double requests; /* what figures are told for: never 0 */
	struct advise_cost ways[NR_ADVISE_WAYS];
	uint64_t threshold_ns[NR_ADVISE_WAYS]; /* of adaptive, the longest */
	/* the best threshold for each kind of wait alone */
	struct advise_cost kinds[GAPS_KINDS];
	uint64_t kind_threshold_ns[GAPS_KINDS];
	/* too few waits: nothing is recommended */
	bool enough;
	enum advise_way recommended; /* event or adaptive */
};

/* What the waits of @gaps would have cost with one @threshold_ns. */
void advise_cost(const struct advise_costs *costs,
		 const struct gaps_histogram *gaps, uint64_t threshold_ns,
		 struct advise_cost *out);

/* The threshold of at most @limit_ns that would have cost least. */
uint64_t advise_best(const struct advise_costs *costs,
		     const struct gaps_histogram *gaps, uint64_t limit_ns,
		     struct advise_cost *out);

/*
 * All of it.  @requests were served in that time, 0: not known; @duration_ns is
 * the one in force.
 */
void advise_make(const struct advise_costs *costs,
		 const struct gaps_histogram gaps[GAPS_KINDS],
		 uint64_t requests, uint64_t duration_ns, struct advise *out);

/* "event", "fixed 1 ms", ... */
const char *advise_name(enum advise_way way);

/* The sentence that says what to do, without an end of line. */
void advise_say(const struct advise *advise, char *out, unsigned size);
