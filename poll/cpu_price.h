/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The price of spinning, and how much of it a process may do: the arithmetic of
 * the governor (cpu.h).  Pure: no clock, no file, no float; the same calls give
 * the same answers.
 *
 * Two brakes.  The *share* is hard: each process fills a purse at its fair part
 * of the cap, and a spin that the purse cannot pay does not begin (a quarter of
 * its limit must be there: most end sooner, and debts are paid first).
 * Everybody works out the same max-min fair level from the same page, so nobody
 * has to negotiate and nothing can swing.  The *price* is soft: it rises while
 * spins are refused, so that the purse pays for the spins that save most, and
 * at once under pressure on the host's CPUs; it falls slowly when that is over.
 *
 * Why CPU_PRICE_BASE is 0.1: a sleep costs 10 to 90 us of latency, depending on
 * the machine.  At 0.1 a spin up to 0.1 to 0.9 ms is worth one: think times of
 * 100 us are always polled, those of 1 ms never, whatever the machine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPU_PRICE_ONE 65536 /* prices are Q16 */
#define CPU_PRICE_MIN 1311 /* 0.02 */
#define CPU_PRICE_BASE 6554 /* 0.1 */
#define CPU_PRICE_MAX (16 * CPU_PRICE_ONE)
#define CPU_UNKNOWN (-1)

/* Rates are ns of CPU a second: this is one CPU. */
#define CPU_PRICE_CPU UINT32_C(1000000000)

struct cpu_price_settings {
	uint32_t base_q16; /* the price of peace; 0: CPU_PRICE_BASE */
	uint32_t cap_pct; /* of one CPU, all tapdisks together; 0: no limit */
	bool spend; /* the cap was asked for: below it, the price may fall
		     * to CPU_PRICE_MIN until the cap is used up */
	uint32_t threshold_pct; /* spin only above this idle share; 0: always */
};

/* Another tapdisk, as it says itself. */
struct cpu_price_peer {
	uint32_t rate; /* what it spends */
	bool hungry; /* and whether it would spend more */
};

/* What happened since the last step. */
struct cpu_price_inputs {
	uint64_t elapsed_ns;
	bool first; /* after a rest: nothing was saved */
	uint64_t next_ns; /* when the next step is planned: the purse lasts */
	uint64_t spent_ns;
	uint64_t wanted_ns; /* the longest spin that was asked for */
	uint32_t asked;
	uint32_t refused;
	uint32_t lost;
	/* in 1/100 of a per cent, or CPU_UNKNOWN */
	int32_t idle_bp; /* of all CPUs, all spinning counted as idle */
	int32_t pressure_bp; /* time in which somebody waited for a CPU */
	const struct cpu_price_peer *peers; /* the active others */
	size_t nr_peers;
};

struct cpu_price {
	/* 1/256 octaves: log2 of a price, and what pressure adds to it */
	int32_t level;
	int32_t pressure;
	int64_t purse_ns; /* below 0: a spin on credit */
	uint64_t ahead_ns; /* time that the purse was filled for in advance */
	uint64_t wanted_ns; /* the longest spin asked for of late */
	uint64_t hungry_ns; /* how long a refusal is remembered yet */
	uint32_t rate; /* spent, averaged over about a second */
};

struct cpu_price_answer {
	uint32_t price_q16;
	bool allowed;
	bool hungry; /* would spend more than its share */
	uint32_t rate; /* what we spend, ns a second, */
	uint32_t share; /* and what we may; UINT32_MAX: no limit */
	uint64_t purse_ns; /* may be spent from now on; UINT64_MAX */
};

void cpu_price_init(struct cpu_price *price,
		    const struct cpu_price_settings *settings);

/* One step, a few times a second while there are waits. */
void cpu_price_step(struct cpu_price *price,
		    const struct cpu_price_settings *settings,
		    const struct cpu_price_inputs *in,
		    struct cpu_price_answer *out);

/*
 * The fair rate of one more process that would spend anything, beside @peers,
 * below the total @cap: what the others leave, but never less than an equal
 * part, whatever they say.
 */
uint32_t cpu_price_share(uint64_t cap, const struct cpu_price_peer *peers,
			 size_t n);
