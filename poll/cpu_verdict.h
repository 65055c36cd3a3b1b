/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the governor (cpu.h) decided about spinning, as data threads see it.
 *
 * One per process, in one cache line.  The main thread writes the first half, a
 * few times a second; data threads write the rest.  Reading is a plain load, so
 * a wait looks at it each time.  No clock and no system call, but one write to
 * an eventfd by the first wait after a second without any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/counter.h"

/* The longest spin that is paid for in advance. */
#define CPU_VERDICT_STAKE_NS UINT64_C(16000000)

enum cpu_watch {
	CPU_ASLEEP, /* the governor's timer is off: wake it */
	CPU_QUIET, /* it runs, nobody has waited since its last turn */
	CPU_BUSY
};

struct cpu_verdict {
	/* the main thread's */
	uint32_t price_q16; /* of a ns of CPU, in ns of latency */
	uint32_t allowed; /* 0: the idle threshold forbids spinning */
	uint32_t wake_ns; /* W0: latency of a wake */
	uint32_t sleep_cpu_ns; /* CW: CPU of a sleep and a wake */
	uint64_t limit_ns; /* spin while spent_ns is below */
	/* the data threads' */
	uint64_t spent_ns; /* on spinning, since the start */
	uint32_t wanted_ns; /* the longest spin asked for; main sets it to 0 */
	uint32_t asked; /* waits that wanted to spin */
	uint32_t refused; /* of these: not within the limit */
	uint32_t lost; /* times the scheduler took the CPU */
	uint32_t watch; /* enum cpu_watch */
	int wake_fd; /* eventfd of the governor */
} __attribute__((aligned(64)));

/* The slow half of cpu_verdict_look. */
void cpu_verdict_wake(struct cpu_verdict *verdict);

/*
 * A data thread, at the start of each wait that may spin (mode and duration
 * say so), before it asks the policy: the governor must know that it is needed.
 */
static inline void cpu_verdict_look(struct cpu_verdict *verdict)
{
	if (__atomic_load_n(&verdict->watch, __ATOMIC_RELAXED) != CPU_BUSY)
		cpu_verdict_wake(verdict);
}

static inline uint32_t cpu_verdict_price(const struct cpu_verdict *verdict)
{
	return __atomic_load_n(&verdict->price_q16, __ATOMIC_RELAXED);
}

/* Within a session, with each reading of the clock: spin on? */
static inline bool cpu_verdict_allowed(const struct cpu_verdict *verdict)
{
	return __atomic_load_n(&verdict->allowed, __ATOMIC_RELAXED);
}

/* ns that may be spent from now on, over all data threads; 0 for none. */
static inline uint64_t cpu_verdict_left(const struct cpu_verdict *verdict)
{
	uint64_t limit = counter_read(&verdict->limit_ns);
	uint64_t spent = counter_read(&verdict->spent_ns);

	if (!cpu_verdict_allowed(verdict))
		return 0;
	return spent < limit ? limit - spent : 0;
}

/*
 * May a spin of at most @ns begin?  Returns for how long: @ns, or 0, for half a
 * spin costs half and gains nothing; only one of more than CPU_VERDICT_STAKE_NS
 * may be cut to that or to what is left.  A quarter of it must be there, the
 * rest is on credit, because most spins end before their limit.  Counts the
 * question: the governor saves up for what is asked for.
 */
static inline uint64_t cpu_verdict_grant(struct cpu_verdict *verdict,
					 uint64_t ns)
{
	uint64_t stake = ns < CPU_VERDICT_STAKE_NS ? ns : CPU_VERDICT_STAKE_NS;
	uint64_t left = cpu_verdict_left(verdict);

	if (!cpu_verdict_allowed(verdict))
		return 0; /* and more money would not help */
	/* where two threads meet one may be missed: these steer a price */
	if (stake > __atomic_load_n(&verdict->wanted_ns, __ATOMIC_RELAXED))
		__atomic_store_n(&verdict->wanted_ns, (uint32_t)stake,
				 __ATOMIC_RELAXED);
	__atomic_store_n(&verdict->asked, verdict->asked + 1, __ATOMIC_RELAXED);
	if (!left || left < stake / 4) {
		__atomic_store_n(&verdict->refused, verdict->refused + 1,
				 __ATOMIC_RELAXED);
		return 0;
	}
	if (left < stake)
		left = stake;
	return left < ns ? left : ns;
}

/*
 * Spun for @ns, hit or miss, without the time that the scheduler took: who was
 * put off for a while would pay for what others used.  May be saved up over a
 * few short spins.
 */
static inline void cpu_verdict_pay(struct cpu_verdict *verdict, uint64_t ns)
{
	__atomic_fetch_add(&verdict->spent_ns, ns, __ATOMIC_RELAXED);
}

/* The scheduler took the CPU while we spun. */
static inline void cpu_verdict_lost(struct cpu_verdict *verdict)
{
	__atomic_fetch_add(&verdict->lost, 1, __ATOMIC_RELAXED);
}
