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
 * It knows numbers and no clock.  In their ranges every product fits: beta at
 * most 2^20, rho 2^17, a time 2^31, a sleep 2^28.
 */
#include "poll/policy.h"

#include <string.h>

#define Q 16

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
#define FAR_WEIGHT \
	POLICY_MEMORY_GAP /* the fast memory has one gap without end */
#define LEAD_SLEEPS 16 /* a lead over break-even is remembered up to this */
#define DEBT_SLEEPS 2 /* and a debt up to this */
#define EAGER_WAITS 64 /* then the slow memory only looks every 8th time */
#define WAITS_WRAP (UINT32_C(1) << 30)

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The one division, off the path of a wait unless rho changed. */
static void derive(struct policy *p)
{
	struct policy_figures *f = &p->figures;

	p->sleep_ns = p->w0_ns + (p->beta * p->cw_ns >> Q);
	p->even_ns = least((p->sleep_ns << Q) / (p->beta + (p->rho >> 2)),
			   p->max_ns);
	f->beta = p->beta;
	f->fail = p->beta + p->rho;
	f->sleep = p->sleep_ns << Q;
	f->version++;
}

void policy_price(struct policy *p, uint32_t beta_q16)
{
	p->beta = least(beta_q16 ? beta_q16 : 1, POLICY_BETA_MAX);
	derive(p);
}

void policy_limit(struct policy *p, uint64_t max_ns)
{
	unsigned bin;

	p->max_ns = least(max_ns, POLICY_TIME_MAX_NS);
	p->figures.reach = 0;
	for (bin = 0; bin < POLICY_MEMORY_BINS; bin++)
		if (policy_memory_edge_ns(bin) <= p->max_ns)
			p->figures.reach |= UINT64_C(1) << bin;
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
	p->rho_known = true;
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

/* Decayed least squares through the origin, in units of 1024 ns. */
static void learn_rho(struct policy *p, uint64_t spun_ns, uint64_t delay_ns)
{
	uint64_t x = least(spun_ns >> 10, 1 << 20);
	uint64_t y = least(delay_ns >> 10, 1 << 20);
	uint64_t rho;

	p->spun_square += x * x - (p->spun_square >> 4);
	p->spun_delay += x * y - (p->spun_delay >> 4);
	if (p->spun_square < 256)
		return;
	p->rho_known = true;
	rho = least((p->spun_delay << Q) / p->spun_square, POLICY_RHO_MAX);
	if (rho == p->rho)
		return;
	p->rho = rho;
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
	struct policy_memory *context = &p->context[p->here];
	const struct policy_figures *f = &p->figures;
	unsigned bin = policy_memory_bin(gap_ns);

	policy_memory_add(context, bin, CONTEXT_MEMORY);
	policy_memory_add(&p->slow, bin, SLOW_MEMORY);
	policy_memory_add(&p->fast, bin, FAST_MEMORY);
	policy_memory_solve(context, f, 0);
	policy_memory_solve(&p->fast, f, FAR_WEIGHT);
	if (p->waits % 8 == 0 || p->waits < EAGER_WAITS)
		policy_memory_solve(&p->slow, f, 0);
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
