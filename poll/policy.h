/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adaptive mode: given how long the past waits took, how long to spin now.
 *
 * Pure: no clock, no system call, no allocation, no float.  The same calls give
 * the same answers, so a recorded wait can be replayed bit for bit
 * (tests/data/policy, tools/polling-sim).  It knows gaps and prices, and
 * nothing of rings, disks or who waits.  Never logs.
 *
 * A wait starts when there is nothing left to do and ends after a *gap*.  Hit
 * or miss, the gap is known afterwards, and with it what every threshold would
 * have cost:
 *
 *	gap <= threshold:	beta * gap
 *	gap > threshold:	sleep + (beta + rho) * threshold
 *	sleep			w0 + beta * cw
 *
 * beta is the price of a nanosecond of CPU in nanoseconds of latency, w0 the
 * latency of a wake, cw the CPU of a sleep and a wake, and rho the part of a
 * failed spin that comes back as delay of the wake; that one is learned.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include "poll/policy_memory.h"

#define POLICY_ONE 65536 /* prices are Q16: this is 1.0 */
#define POLICY_BETA_MAX (16 * POLICY_ONE)
#define POLICY_RHO_MAX (2 * POLICY_ONE)
#define POLICY_TIME_MAX_NS INT32_MAX /* longer times count as this */
#define POLICY_WAKE_MAX_NS (UINT64_C(1) << 27) /* w0 is at most this */
#define POLICY_SLEEP_CPU_MAX_NS (UINT64_C(1) << 23) /* and cw this */
#define POLICY_DELAY_UNKNOWN (-1)

/* What was asked for last before the wait. */
enum policy_op { POLICY_READ, POLICY_WRITE, POLICY_FLUSH, NR_POLICY_OPS };

/* Gaps since the wait before: below half a sleep, below eight, more. */
#define POLICY_GAP_CLASSES 3

/* Who proposes a threshold. */
enum policy_expert {
	POLICY_SLEEP, /* never spins */
	POLICY_EVEN, /* break-even: spins for as much as a sleep costs */
	POLICY_SLOW, /* the best for the last 256 to 512 gaps */
	POLICY_FAST, /* for the last 16 to 32 */
	POLICY_CONTEXT, /* for those after the same operation and gap class */
	NR_POLICY_EXPERTS
};

/* The caller embeds it and looks at nothing in it but through functions. */
struct policy {
	/* given */
	uint64_t max_ns;
	uint64_t w0_ns;
	uint64_t cw_ns;
	uint64_t beta; /* Q16 */
	/* learned */
	uint64_t rho; /* Q16 */
	uint64_t spun_square, spun_delay; /* rho is their quotient, decayed */
	struct policy_memory slow, fast;
	struct policy_memory context[NR_POLICY_OPS * POLICY_GAP_CLASSES];
	int64_t average[NR_POLICY_EXPERTS]; /* decayed cost of a wait, ns */
	int64_t debt; /* what the picks lost against break-even, ns */
	/* derived from the above whenever it changes */
	struct policy_figures figures;
	uint64_t sleep_ns; /* what a sleep costs, in latency */
	uint64_t even_ns; /* the break-even threshold */
	/* the wait in progress, and the one before */
	uint64_t proposed_ns[NR_POLICY_EXPERTS];
	uint32_t waits;
	uint8_t here; /* index of the context */
	uint8_t last_class;
	uint8_t picked; /* the expert with the least average */
	uint8_t chosen; /* that, or break-even when the guard says so */
	bool open; /* between begin and end */
	bool rho_known; /* measured here, or told */
};

static_assert(sizeof(struct policy) <= 4096, "the promise of the design");

/*
 * Start without memories.  @max_ns bounds every answer, 0 means never spin;
 * @beta_q16 is held within 1 and POLICY_BETA_MAX, the costs of a sleep within
 * POLICY_WAKE_MAX_NS and POLICY_SLEEP_CPU_MAX_NS.
 */
void policy_init(struct policy *policy, uint64_t max_ns, uint32_t beta_q16,
		 uint64_t w0_ns, uint64_t cw_ns);

/*
 * New figures: the price of CPU, the longest spin, the costs of a sleep.  At
 * any time, also within a wait; the next begin goes by them.  What was learned
 * stays, except that a memory finds its threshold again only with its next gap.
 */
void policy_price(struct policy *policy, uint32_t beta_q16);
void policy_limit(struct policy *policy, uint64_t max_ns);
void policy_costs(struct policy *policy, uint64_t w0_ns, uint64_t cw_ns);

/*
 * rho as another policy on the same CPU has learned it, for one that sees no
 * failed spins of its own.  As the figures above.
 */
void policy_rho_is(struct policy *policy, uint32_t rho_q16);

/*
 * A wait starts; returns for how many ns to spin before sleeping, 0 for not at
 * all, never more than the maximum.  @op is the last operation taken.  A second
 * begin without an end forgets the first.
 */
uint64_t policy_begin(struct policy *policy, enum policy_op op);

/*
 * The wait is over.  @observed_ns is from its start, that is from the last
 * response and not from the request, until we noticed the next request;
 * @spun_ns is how long it spun.  If it slept, @missed, the wake is part of
 * @observed_ns and is taken out here: @delay_ns is how long the thread stood in
 * the run queue for it (the growth of run_delay), or POLICY_DELAY_UNKNOWN.
 * Without a begin this does nothing.
 */
void policy_end(struct policy *policy, uint64_t observed_ns, uint64_t spun_ns,
		bool missed, int64_t delay_ns);

/*
 * What a wait with this threshold and gap costs, in ns of latency, by the
 * present figures.  Both at most POLICY_TIME_MAX_NS.
 */
uint64_t policy_cost(const struct policy *policy, uint64_t threshold_ns,
		     uint64_t gap_ns);

/* What a sleep costs, and rho (Q16): the governor never offers a lower price.
 */
static inline uint64_t policy_sleep_ns(const struct policy *policy)
{
	return policy->sleep_ns;
}

static inline uint32_t policy_rho(const struct policy *policy)
{
	return (uint32_t)policy->rho;
}

/* Whether rho is more than the careful guess that a policy starts with. */
static inline bool policy_rho_known(const struct policy *policy)
{
	return policy->rho_known;
}

/* Who decided the last wait, "guard" being break-even against its pick. */
const char *policy_decider(const struct policy *policy);
