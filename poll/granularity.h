/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's wakeup granularity: the time a running task may keep the CPU
 * before a woken one gets it.  Polling windows are rounded up to multiples of
 * it, because ending one inside a granule pays for the spin and for the wait.
 * Never logs.
 */
#pragma once

#include <stdint.h>

#define GRANULARITY_DEFAULT_US 4000 /* HZ=250 */
#define GRANULARITY_WINDOW_MAX_US 60000000

struct granularity {
	uint32_t us; /* 1000 to 10000 */
	char source[64]; /* the file or call it was read from, or "default" */
};

/*
 * Read the running kernel's: the larger of the timer tick
 * (clock_getres(CLOCK_MONOTONIC_COARSE)) and the scheduler's own figure
 * (/proc/sys/kernel/sched_wakeup_granularity_ns, debugfs
 * sched/wakeup_granularity_ns or sched/base_slice_ns, in ns), which only acts
 * at a tick and so is rounded up to one.  Cannot fail: GRANULARITY_DEFAULT_US.
 */
void granularity_read(struct granularity *out);

/*
 * The same from figures: 0 is unknown, @sched_source is where the second one
 * was read.  Pure.
 */
void granularity_from(uint64_t tick_ns, uint64_t sched_ns,
		      const char *sched_source, struct granularity *out);

/*
 * Round @us up to a whole multiple of @granule_us (not 0).  0 stays 0; the
 * result never exceeds GRANULARITY_WINDOW_MAX_US, nor the last multiple below.
 */
uint32_t granularity_align(uint32_t us, uint32_t granule_us);
