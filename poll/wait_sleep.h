/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arm, look, sleep: the half of the wait engine that makes system calls.  The
 * only code that sleeps on behalf of a data thread, and the only one that
 * knows how a kernel can be told to.  It refuses to know why: modes, policies
 * and the governor are wait.c's, which alone calls this.  Never logs.
 *
 * What others may ask of it stands in wait.h: wait_add_fd and its like,
 * wait_set_sleep, wait_arm, wait_awake.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "poll/clock.h"
#include "poll/wait.h"

/*
 * The first date at which a source wants the wait to end, or CLOCK_NEVER.  Here
 * because every spin asks too.
 */
static inline uint64_t wait_sleep_due(const struct wait *wait)
{
	uint64_t due = CLOCK_NEVER;

	for (unsigned i = 0; i < wait->nr_words; i++)
		if (wait->sources[i] && wait->sources[i]->due_ns < due)
			due = wait->sources[i]->due_ns;
	return due;
}

/*
 * Sleep until a source wakes us, or @until.  False: a source had work, there
 * was no sleep.
 */
bool wait_sleep_until(struct wait *wait, uint64_t until);
