/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one clock of the project: CLOCK_MONOTONIC in nanoseconds.  Through the
 * vDSO, so a reading is not a system call, but it is not free either (20 to
 * 40 ns): the data path reads it only while it has nothing to do.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#define CLOCK_SECOND UINT64_C(1000000000)
#define CLOCK_NEVER UINT64_MAX

static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * CLOCK_SECOND + (uint64_t)ts.tv_nsec;
}
