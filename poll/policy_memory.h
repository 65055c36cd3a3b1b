/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A memory of gaps: a histogram that fades, and the threshold that would have
 * cost least over it.  It knows prices and gaps, and nothing of waits or of who
 * asks.  Pure, as poll/policy.h, whose part it is.
 */
#pragma once

#include <stdint.h>

/* Four bins an octave, from 512 ns to 16 ms. */
#define POLICY_MEMORY_BINS 64
#define POLICY_MEMORY_GAP 256 /* the weight of one gap */

/* What the threshold depends on, beside the gaps.  Prices are Q16. */
struct policy_figures {
	uint64_t beta; /* of a ns that was spun, at most 2^20 */
	uint64_t fail; /* of a ns spun in vain; beta to 2^20 + 2^17 */
	uint64_t sleep; /* of a sleep: Q16 of at most 2^28 ns */
	uint64_t reach; /* bit i: bin i ends within the longest spin */
	uint64_t version; /* differs whenever another field does; not 0 */
};

/* How a pass over the bins stands behind one of them. */
struct policy_scan {
	uint64_t left; /* weight of the gaps beyond */
	uint64_t spun; /* weight times length of the others */
};

struct policy_memory {
	uint32_t weight[POLICY_MEMORY_BINS];
	uint64_t used; /* bit i: weight[i] is not 0 */
	uint32_t total; /* of the weights, at most 2^17 */
	uint32_t gaps; /* halved with the weights */
	uint32_t last; /* bin of the gap added last */
	uint32_t added; /* gaps since threshold_ns was found */
	uint32_t threshold_ns;
	/* the bin at whose end spinning costs least, -1: none; and there */
	int32_t best;
	struct policy_scan scan;
	uint64_t version; /* of the figures these hold for; 0: they do not */
};

/* The bin that holds @gap_ns. */
unsigned policy_memory_bin(uint64_t gap_ns);

/* The longest gap that @bin holds. */
uint64_t policy_memory_edge_ns(unsigned bin);

/*
 * Add a gap.  At twice @span gaps (at most 256) the older half of the weight is
 * forgotten.
 */
void policy_memory_add(struct policy_memory *memory, unsigned bin,
		       unsigned span);

/*
 * Find threshold_ns again, as if gaps of weight @far without end had been added
 * too.  Until then it stays what it was.
 */
void policy_memory_solve(struct policy_memory *memory,
			 const struct policy_figures *figures, uint64_t far);
