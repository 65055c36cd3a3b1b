/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The governor: may tapdisk spin, for how long, and at which price?
 *
 * Main thread only; data threads read and write a struct cpu_verdict.  It reads
 * /proc at most once a second and only while there are waits, shares a page
 * with the other tapdisks of the host, has the costs of a sleep measured once,
 * and leaves the arithmetic to cpu_price.  It owns no loop: its owner watches
 * one descriptor and keeps one timer.  What cannot be known never forbids
 * spinning: it is said in cpu_report.  Logs what is missing, once.
 *
 * The price is the host's.  What a failed spin costs the thread itself (rho, in
 * policy.h) only that thread knows: it takes the higher of the two.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "poll/calibrate.h"
#include "poll/cpu_price.h"
#include "poll/cpu_verdict.h"

struct cpu_governor;

/*
 * @proc is "/proc" but for tests.  0, -ENOMEM or -errno of eventfd.  Everything
 * else that is missing is done without.  Reads /proc once, so that the first
 * verdict has a past.
 */
int cpu_open(const char *proc, uint64_t now_ns, struct cpu_governor **out);

/* Data threads no longer know the verdict.  NULL is fine. */
void cpu_close(struct cpu_governor *governor);

/*
 * Leave the page of the host; only data threads that drain still know us.  The
 * last one out removes it.
 */
void cpu_leave(struct cpu_governor *governor);

/* For data threads; lives as long as the governor. */
struct cpu_verdict *cpu_verdict(struct cpu_governor *governor);

/* Takes effect at once.  Without: base price, cap 100 %, no threshold. */
void cpu_configure(struct cpu_governor *governor,
		   const struct cpu_price_settings *settings);

/*
 * The local guest's process, whose CPU time does not count against the host;
 * 0: none.
 */
void cpu_set_guest(struct cpu_governor *governor, pid_t pid);

/* Readable when cpu_run must be called before its date. */
int cpu_fd(const struct cpu_governor *governor);

/*
 * When cpu_fd is readable or the date has come.  Returns in how many ns to call
 * again at the latest; CLOCK_NEVER: when cpu_fd says so.
 */
uint64_t cpu_run(struct cpu_governor *governor, uint64_t now_ns);

/* The machine may have changed (resume): measure again at the next wait. */
void cpu_recalibrate(struct cpu_governor *governor, uint64_t now_ns);

/* Everything "tap-ctl polling" shows. */
struct cpu_report {
	uint32_t price_q16;
	bool allowed;
	int32_t idle_bp; /* CPU_UNKNOWN */
	int32_t pressure_bp; /* CPU_UNKNOWN */
	int32_t cpumond_bp; /* CPU_UNKNOWN */
	const char *idle_source; /* "/proc/stat", "cpumond", "none" */
	uint32_t tapdisks; /* active ones, with us */
	uint32_t rate; /* ns a second that we spend, */
	uint32_t share; /* and may; UINT32_MAX: no limit */
	struct calibration costs;
	enum calibration_source costs_source;
	/* why something is missing; "" if nothing is */
	char page_why[96];
	char idle_why[96];
	char costs_why[96];
};

void cpu_report(const struct cpu_governor *governor, struct cpu_report *out);
