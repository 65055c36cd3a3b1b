/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three memories of gaps, five experts that propose a threshold, and a guard.
 *
 * Every memory knows which threshold would have cost least over its gaps.
 * After each wait every expert is charged what its proposal would have cost,
 * and the one with the least average decides the next: two time scales and a
 * choice make a change of the guest cheap.  The guard answers somebody who
 * plays against the threshold.
 *
 * It knows numbers and no clock.  In these ranges every product fits: beta
 * below 2^20 + 1, rho below 2^17 + 1, a bin's edge below 2^24, a sleep below
 * 2^28 + 1, the weights of a memory below 2^17 + 1 together.
 */
#include "poll/policy.h"

#include <string.h>

#define Q 16

#define FIRST_LOG2 9 /* bin 0 ends below 2^9 ns */
#define LAST_BIN (POLICY_BINS - 1)
#define GAP_WEIGHT 256
#define GAP_SPILL (GAP_WEIGHT / 8) /* of it into each of the next two bins */

/*
 * Flat: halving or doubling any of these moves the mean cost by less than a
 * hundredth (see polling-sim).  Changing one invalidates tests/data/policy.
 */
#define SLOW_MEMORY 256 /* a memory is halved at twice these gaps */
#define CONTEXT_MEMORY 64
#define FAST_MEMORY 16
#define SLOW_READY 8 /* gaps before a memory is asked */
#define CONTEXT_READY 8
#define FAST_READY 4
#define AVERAGE_LOG2 5 /* waits over which experts are compared */
#define LAZY_LOG2 4 /* spinning has to save this share of a sleep */
#define WIDER_LOG2 4 /* a threshold grows while this is all it costs ... */
#define WIDER_BINS                                                \
	4 /* ... by at most an octave: tails are longer than seen \
	   */
#define FAR_WEIGHT GAP_WEIGHT /* the fast memory has one gap without end */
#define LEAD_SLEEPS 16 /* a lead over break-even is remembered up to this */
#define DEBT_SLEEPS 2 /* and a debt up to this */
#define EAGER_WAITS 64 /* then the slow memory only looks every 8th time */
#define WAITS_WRAP (UINT32_C(1) << 30)

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The longest gap that bin @i holds: quarter octaves. */
static uint64_t edge_ns(unsigned i)
{
	return ((UINT64_C(4) + i % 4) << (FIRST_LOG2 - 2 + i / 4)) - 1;
}

static uint64_t middle_ns(unsigned i)
{
	return i ? (edge_ns(i - 1) + edge_ns(i)) / 2 : edge_ns(0) / 2;
}

static unsigned bin_of(uint64_t gap_ns)
{
	unsigned log2, i;

	if (gap_ns < UINT64_C(1) << FIRST_LOG2)
		return 0;
	log2 = 63 - (unsigned)__builtin_clzll(gap_ns);
	i = (log2 - FIRST_LOG2) * 4 + ((gap_ns >> (log2 - 2)) & 3) + 1;
	return i < LAST_BIN ? i : LAST_BIN;
}

/* The one division, off the path of a wait unless rho changed. */
static void derive(struct policy *p)
{
	p->sleep_ns = p->w0_ns + (p->beta * p->cw_ns >> Q);
	p->even_ns = least((p->sleep_ns << Q) / (p->beta + (p->rho >> 2)),
			   p->max_ns);
}

void policy_price(struct policy *p, uint32_t beta_q16)
{
	p->beta = least(beta_q16 ? beta_q16 : 1, POLICY_BETA_MAX);
	derive(p);
}

void policy_limit(struct policy *p, uint64_t max_ns)
{
	unsigned bins = 0;

	p->max_ns = least(max_ns, POLICY_TIME_MAX_NS);
	while (bins < POLICY_BINS && edge_ns(bins) <= p->max_ns)
		bins++;
	p->reach = bins < 64 ? (UINT64_C(1) << bins) - 1 : UINT64_MAX;
	derive(p);
}

void policy_costs(struct policy *p, uint64_t w0_ns, uint64_t cw_ns)
{
	p->w0_ns = least(w0_ns, POLICY_WAKE_MAX_NS);
	p->cw_ns = least(cw_ns, POLICY_SLEEP_CPU_MAX_NS);
	derive(p);
}

void policy_rho_is(struct policy *p, uint32_t rho_q16)
{
	p->rho = least(rho_q16, POLICY_RHO_MAX);
	derive(p);
}

void policy_init(struct policy *p, uint64_t max_ns, uint32_t beta_q16,
		 uint64_t w0_ns, uint64_t cw_ns)
{
	memset(p, 0, sizeof(*p));
	p->rho = POLICY_ONE; /* the cautious side, until measured */
	policy_price(p, beta_q16);
	policy_costs(p, w0_ns, cw_ns);
	policy_limit(p, max_ns);
}

uint64_t policy_cost(const struct policy *p, uint64_t threshold_ns,
		     uint64_t gap_ns)
{
	if (gap_ns <= threshold_ns)
		return p->beta * gap_ns >> Q;
	return p->sleep_ns + ((p->beta + p->rho) * threshold_ns >> Q);
}

static void halve(struct policy_memory *m)
{
	uint64_t left;
	unsigned i;

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

static void remember(struct policy_memory *m, unsigned bin, unsigned memory)
{
	unsigned next = bin < LAST_BIN ? bin + 1 : LAST_BIN;
	unsigned after = next < LAST_BIN ? next + 1 : LAST_BIN;

	m->weight[bin] += GAP_WEIGHT - 2 * GAP_SPILL;
	m->weight[next] += GAP_SPILL;
	m->weight[after] += GAP_SPILL;
	m->used |=
		UINT64_C(1) << bin | UINT64_C(1) << next | UINT64_C(1) << after;
	m->total += GAP_WEIGHT;
	m->gaps++;
	if (m->gaps >= 2 * memory)
		halve(m);
}

/* One pass over the bins: what was spun and what is left if it ended here. */
struct scan {
	uint64_t left; /* weight of the gaps beyond */
	uint64_t spun; /* weight times length of those before */
};

static void scan_past(struct scan *s, const struct policy_memory *m, unsigned i)
{
	s->left -= m->weight[i];
	s->spun += m->weight[i] * middle_ns(i);
}

/* Q16, times the weight; @far is the weight of gaps without end. */
static uint64_t scan_cost(const struct policy *p, const struct scan *s,
			  unsigned i, uint64_t far)
{
	uint64_t failed = (p->beta + p->rho) * edge_ns(i);

	return p->beta * s->spun + s->left * ((p->sleep_ns << Q) + failed) +
	       far * failed;
}

/* The threshold with the least cost over the gaps of @m. */
static void solve(const struct policy *p, struct policy_memory *m, uint64_t far)
{
	struct scan s = { .left = m->total }, at_best = s;
	uint64_t best = m->total * (p->sleep_ns << Q);
	uint64_t bins, cost;
	int at = -1;
	unsigned i, end;

	best -= best >> LAZY_LOG2;
	/* an empty bin has nothing to gain */
	for (bins = m->used & p->reach; bins; bins &= bins - 1) {
		i = (unsigned)__builtin_ctzll(bins);
		scan_past(&s, m, i);
		cost = scan_cost(p, &s, i, far);
		if (cost < best) {
			best = cost;
			at = (int)i;
			at_best = s;
		}
	}
	m->threshold_ns = 0;
	if (at < 0)
		return;

	m->threshold_ns = (uint32_t)edge_ns((unsigned)at);
	best += best >> WIDER_LOG2;
	end = (unsigned)at + 1 + WIDER_BINS;
	for (i = (unsigned)at + 1; i < end && i < POLICY_BINS; i++) {
		if (!(p->reach >> i & 1))
			break;
		scan_past(&at_best, m, i);
		if (scan_cost(p, &at_best, i, far) <= best)
			m->threshold_ns = (uint32_t)edge_ns(i);
	}
}

/* Decayed least squares through the origin, in units of 1024 ns. */
static void learn_rho(struct policy *p, uint64_t spun_ns, uint64_t delay_ns)
{
	uint64_t x = least(spun_ns >> 10, 1 << 20);
	uint64_t y = least(delay_ns >> 10, 1 << 20);

	p->spun_square += x * x - (p->spun_square >> 4);
	p->spun_delay += x * y - (p->spun_delay >> 4);
	if (p->spun_square < 256)
		return;
	p->rho = least((p->spun_delay << Q) / p->spun_square, POLICY_RHO_MAX);
	derive(p);
}

uint64_t policy_begin(struct policy *p, enum policy_op op)
{
	/* ties go to the longest memory, then to the first of these */
	static const uint8_t order[] = { POLICY_SLEEP, POLICY_CONTEXT,
					 POLICY_FAST, POLICY_EVEN };
	const struct policy_memory *m;
	uint64_t *ns = p->proposed_ns;
	unsigned i, best = POLICY_SLOW;

	assert((unsigned)op < NR_POLICY_OPS);
	p->here = (uint8_t)(op * POLICY_GAP_CLASSES + p->last_class);
	m = &p->context[p->here];
	ns[POLICY_SLEEP] = 0;
	ns[POLICY_EVEN] = p->even_ns;
	ns[POLICY_SLOW] =
		p->slow.gaps >= SLOW_READY ? p->slow.threshold_ns : p->even_ns;
	ns[POLICY_FAST] = p->fast.gaps >= FAST_READY ? p->fast.threshold_ns
						     : ns[POLICY_SLOW];
	ns[POLICY_CONTEXT] =
		m->gaps >= CONTEXT_READY ? m->threshold_ns : ns[POLICY_SLOW];

	for (i = 0; i < sizeof(order); i++)
		if (p->average[order[i]] < p->average[best])
			best = order[i];
	p->picked = (uint8_t)best;
	/*
	 * Where rho is above beta, a break-even spin that fails costs more than
	 * two sleeps, and the guard would be dearer than what it guards from.
	 */
	p->chosen = p->debt > 0 && p->rho <= p->beta ? POLICY_EVEN : p->picked;
	p->open = true;
	return least(ns[p->chosen], p->max_ns);
}

/* The gap behind an observation: that of a sleeper has the wake in it. */
static uint64_t gap_of(struct policy *p, uint64_t observed_ns, uint64_t spun_ns,
		       bool missed, int64_t delay_ns)
{
	int64_t gap;

	if (!missed)
		return observed_ns;
	if (delay_ns > POLICY_TIME_MAX_NS)
		delay_ns = POLICY_TIME_MAX_NS;
	if (delay_ns < 0)
		delay_ns = (int64_t)(p->rho * spun_ns >> Q);
	else if (spun_ns)
		learn_rho(p, spun_ns, (uint64_t)delay_ns);
	gap = (int64_t)observed_ns - (int64_t)p->w0_ns - delay_ns;
	/* it was longer than the spin, whatever the figures say */
	return gap > (int64_t)spun_ns ? (uint64_t)gap : spun_ns + 1;
}

/* Everybody is charged; the picks' account against break-even is kept. */
static void charge(struct policy *p, uint64_t gap_ns)
{
	int64_t cost[NR_POLICY_EXPERTS];
	int64_t sleep = (int64_t)p->sleep_ns;
	unsigned i;

	for (i = 0; i < NR_POLICY_EXPERTS; i++) {
		cost[i] = (int64_t)policy_cost(p, p->proposed_ns[i], gap_ns);
		p->average[i] += (cost[i] - p->average[i]) >> AVERAGE_LOG2;
	}
	p->debt += cost[p->picked] - cost[POLICY_EVEN];
	if (p->debt < -LEAD_SLEEPS * sleep)
		p->debt = -LEAD_SLEEPS * sleep;
	if (p->debt > DEBT_SLEEPS * sleep)
		p->debt = DEBT_SLEEPS * sleep;
}

static void learn_gap(struct policy *p, uint64_t gap_ns)
{
	struct policy_memory *m = &p->context[p->here];
	unsigned bin = bin_of(gap_ns);

	remember(m, bin, CONTEXT_MEMORY);
	remember(&p->slow, bin, SLOW_MEMORY);
	remember(&p->fast, bin, FAST_MEMORY);
	solve(p, m, 0);
	solve(p, &p->fast, FAR_WEIGHT);
	if (p->waits % 8 == 0 || p->waits < EAGER_WAITS)
		solve(p, &p->slow, 0);
}

void policy_end(struct policy *p, uint64_t observed_ns, uint64_t spun_ns,
		bool missed, int64_t delay_ns)
{
	uint64_t gap;

	if (!p->open)
		return;
	p->open = false;
	gap = gap_of(p, least(observed_ns, POLICY_TIME_MAX_NS),
		     least(spun_ns, POLICY_TIME_MAX_NS), missed, delay_ns);
	charge(p, gap);
	learn_gap(p, gap);
	p->waits = p->waits < WAITS_WRAP ? p->waits + 1 : EAGER_WAITS;
	p->last_class = (uint8_t)((gap >= p->sleep_ns >> 1) +
				  (gap >= p->sleep_ns << 3));
}

const char *policy_decider(const struct policy *p)
{
	static const char *const names[NR_POLICY_EXPERTS] = {
		[POLICY_SLEEP] = "sleep",     [POLICY_EVEN] = "even",
		[POLICY_SLOW] = "slow",	      [POLICY_FAST] = "fast",
		[POLICY_CONTEXT] = "context",
	};

	return p->chosen != p->picked ? "guard" : names[p->chosen];
}
