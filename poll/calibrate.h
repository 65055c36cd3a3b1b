/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What clock, turn, arm, sleep and wake cost on this machine.
 *
 * Measured in at most 20 ms by two threads in the background; figures out of
 * bounds are not believed.  It knows nothing of who waits or who shares the
 * figures (host_page.h).  Never logs.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define CALIBRATE_MAX_MS 20
#define CALIBRATE_VALID_NS UINT64_C(3600000000000) /* one hour */

enum calibration_source {
	CALIBRATION_DEFAULT, /* break-even figures until there are better */
	CALIBRATION_MEASURED,
	CALIBRATION_SHARED, /* measured by another tapdisk of this host */
};

/* In ns: medians, and of wakes the average. */
struct calibration {
	uint32_t clock_ns; /* one reading of the clock */
	uint32_t turn_ns; /* one look at the words */
	uint32_t arm_ns; /* store, full barrier, look again */
	uint32_t block_ns; /* CW: CPU of a sleep and a wake */
	uint32_t wake_ns; /* W0: from the kick until awake */
};

void calibrate_defaults(struct calibration *out);

/* Whether a machine can be like that. */
bool calibrate_plausible(const struct calibration *figures);

/*
 * Measure now, in this thread and one helper; at most CALIBRATE_MAX_MS.
 * Returns 0, -ERANGE if the figures are not plausible, -ETIMEDOUT if the
 * machine is too busy to tell, -errno of eventfd, epoll_create1,
 * pthread_create.  @out is written only on success.
 */
int calibrate_measure(struct calibration *out);

/* A measurement in the background.  Zeroed: none. */
struct calibrate {
	struct calibration figures;
	int err;
	int fd; /* the caller's eventfd */
	pthread_t thread;
	bool done; /* announces figures and err */
	bool running; /* the starter's: to be joined */
};

/*
 * Start it; @fd, the caller's eventfd, is written to at the end.  -EALREADY,
 * -errno of pthread_create.
 */
int calibrate_start(struct calibrate *run, int fd);

/*
 * Its result, after which another may start: that of calibrate_measure, or
 * -EAGAIN while it runs and @wait is false, -ENOENT if none does.
 */
int calibrate_finish(struct calibrate *run, bool wait, struct calibration *out);
