/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The histogram, the search for its best threshold, and the proof that most of
 * the time there is nothing to search.  Knows no clock.
 *
 * Every product fits into 64 bits: a bin ends below 2^25, all weights together
 * are at most 2^17, prices and a sleep as policy_figures says.
 */
#include "poll/policy_memory.h"

#include <stdbool.h>

#define FIRST_LOG2 9 /* bin 0 ends below 2^9 ns */
#define LAST_BIN (POLICY_MEMORY_BINS - 1)
#define SPILL (POLICY_MEMORY_GAP / 8) /* into each of the next two bins */

/*
 * Flat: halving or doubling any of these moves the mean cost by less than a
 * hundredth.  Changing one invalidates tests/data/policy.
 */
#define LAZY_LOG2 4 /* spinning has to save this share of a sleep */
#define WIDER_LOG2 4 /* a threshold grows while this is all it costs ... */
#define WIDER_BINS                                                \
	4 /* ... by at most an octave: tails are longer than seen \
	   */

/* Bin i holds the gaps from bound_ns[i] + 1 to bound_ns[i + 1]. */
static const uint32_t bound_ns[POLICY_MEMORY_BINS + 1] = {
	0,	  511,	    639,      767,	895,	  1023,	    1279,
	1535,	  1791,	    2047,     2559,	3071,	  3583,	    4095,
	5119,	  6143,	    7167,     8191,	10239,	  12287,    14335,
	16383,	  20479,    24575,    28671,	32767,	  40959,    49151,
	57343,	  65535,    81919,    98303,	114687,	  131071,   163839,
	196607,	  229375,   262143,   327679,	393215,	  458751,   524287,
	655359,	  786431,   917503,   1048575,	1310719,  1572863,  1835007,
	2097151,  2621439,  3145727,  3670015,	4194303,  5242879,  6291455,
	7340031,  8388607,  10485759, 12582911, 14680063, 16777215, 20971519,
	25165823, 29360127,
};

uint64_t policy_memory_edge_ns(unsigned bin)
{
	return bound_ns[bin + 1];
}

static uint64_t middle_ns(unsigned bin)
{
	return (bound_ns[bin] + bound_ns[bin + 1]) / 2;
}

static unsigned next_bin(unsigned bin)
{
	return bin < LAST_BIN ? bin + 1 : LAST_BIN;
}

unsigned policy_memory_bin(uint64_t gap_ns)
{
	unsigned log2, bin;

	if (gap_ns < UINT64_C(1) << FIRST_LOG2)
		return 0;
	log2 = 63 - (unsigned)__builtin_clzll(gap_ns);
	bin = (log2 - FIRST_LOG2) * 4 + ((gap_ns >> (log2 - 2)) & 3) + 1;
	return bin < LAST_BIN ? bin : LAST_BIN;
}

static void halve(struct policy_memory *m)
{
	uint64_t left;
	unsigned i;

	m->version = 0;
	m->gaps >>= 1;
	m->total = 0;
	for (left = m->used; left; left &= left - 1) {
		i = (unsigned)__builtin_ctzll(left);
		m->weight[i] >>= 1;
		m->total += m->weight[i];
		if (!m->weight[i])
			m->used &= ~(UINT64_C(1) << i);
	}
}

void policy_memory_add(struct policy_memory *m, unsigned bin, unsigned span)
{
	unsigned next = next_bin(bin), after = next_bin(next);

	m->weight[bin] += POLICY_MEMORY_GAP - 2 * SPILL;
	m->weight[next] += SPILL;
	m->weight[after] += SPILL;
	m->used |=
		UINT64_C(1) << bin | UINT64_C(1) << next | UINT64_C(1) << after;
	m->total += POLICY_MEMORY_GAP;
	m->last = bin;
	m->added++;
	m->gaps++;
	if (m->gaps >= 2 * span)
		halve(m);
}

static void pass(struct policy_scan *s, const struct policy_memory *m,
		 unsigned bin)
{
	s->left -= m->weight[bin];
	s->spun += m->weight[bin] * middle_ns(bin);
}

/* Of spinning to the end of @bin, which @s has just passed. */
static uint64_t cost(const struct policy_figures *f,
		     const struct policy_scan *s, unsigned bin, uint64_t far)
{
	return f->beta * s->spun + f->sleep * s->left +
	       f->fail * policy_memory_edge_ns(bin) * (s->left + far);
}

/* No end beyond costs less: who is left is spun for up to here at least. */
static uint64_t least_beyond(const struct policy_figures *f,
			     const struct policy_scan *s, unsigned bin,
			     uint64_t far)
{
	uint64_t edge = policy_memory_edge_ns(bin);

	return f->beta * (s->spun + s->left * edge) + f->fail * edge * far;
}

static uint64_t cost_of_sleep(const struct policy_figures *f, uint64_t weight)
{
	uint64_t all = f->sleep * weight;

	return all - (all >> LAZY_LOG2);
}

/*
 * Whether the best bin is the same as before the last gap; then m->scan is that
 * of now.
 *
 * A gap adds to the cost of a threshold that it hits what spinning for it costs
 * (added), to that of sleeping 15/16 of a sleep, and to that of a shorter
 * threshold a sleep and more; the bins that the gap is spread over lie between.
 * So a best that was hit stays if hitting was no dearer than sleeping, and
 * sleep stays best if hitting would not have been cheaper.  A bin that was
 * empty is no surprise: to end in it cost no less than in the one before.
 */
static bool stays(struct policy_memory *m, const struct policy_figures *f)
{
	unsigned bin = m->last, next = next_bin(bin), after = next_bin(next);
	uint64_t spun = (POLICY_MEMORY_GAP - 2 * SPILL) * middle_ns(bin) +
			SPILL * (middle_ns(next) + middle_ns(after));
	uint64_t added = f->beta * spun;
	uint64_t slept = cost_of_sleep(f, POLICY_MEMORY_GAP);

	if (m->version != f->version || m->added != 1)
		return false;
	if (m->best < 0)
		return added >= slept;
	if ((unsigned)m->best < after || added > slept)
		return false;
	m->scan.spun += spun;
	return true;
}

static void search(struct policy_memory *m, const struct policy_figures *f,
		   uint64_t far)
{
	const struct policy_figures figures = *f; /* in registers */
	struct policy_scan s = { .left = m->total }, at_best = s;
	uint64_t least = cost_of_sleep(f, m->total);
	uint64_t bins, here;
	int best = -1;
	unsigned i;

	/* an empty bin has nothing to gain */
	for (bins = m->used & f->reach; bins; bins &= bins - 1) {
		i = (unsigned)__builtin_ctzll(bins);
		pass(&s, m, i);
		here = cost(&figures, &s, i, far);
		if (here < least) {
			least = here;
			best = (int)i;
			at_best = s;
		} else if (least_beyond(&figures, &s, i, far) >= least) {
			break;
		}
	}
	m->best = best;
	m->scan = at_best;
}

/* The longest within WIDER_BINS of the best that costs hardly more. */
static uint64_t widened(const struct policy_memory *m,
			const struct policy_figures *f, uint64_t far)
{
	struct policy_scan s = m->scan;
	unsigned best = (unsigned)m->best, longest = best, i;
	uint64_t most = cost(f, &s, best, far);

	most += most >> WIDER_LOG2;
	for (i = best + 1; i <= best + WIDER_BINS; i++) {
		if (i > LAST_BIN || !(f->reach >> i & 1))
			break;
		pass(&s, m, i);
		if (cost(f, &s, i, far) <= most)
			longest = i;
	}
	return policy_memory_edge_ns(longest);
}

void policy_memory_solve(struct policy_memory *m,
			 const struct policy_figures *f, uint64_t far)
{
	if (!stays(m, f))
		search(m, f, far);
	m->version = f->version;
	m->added = 0;
	m->threshold_ns = m->best < 0 ? 0 : (uint32_t)widened(m, f, far);
}
