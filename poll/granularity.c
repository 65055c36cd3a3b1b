/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the kernel tells its wakeup granularity, and how a duration is aligned
 * to it.  It knows nothing of polling or of who waits.
 */
#include "poll/granularity.h"
#include "poll/host.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_US 1000
#define NS_PER_SECOND 1000000000
#define MIN_US 1000 /* HZ=1000 */
#define MAX_US 10000 /* HZ=100 */

static const char tick_source[] = "clock_getres(CLOCK_MONOTONIC_COARSE)";

/* The first that can be read; one kernel has at most one of them. */
static const char *const sched_files[] = {
	"/proc/sys/kernel/sched_wakeup_granularity_ns", /* to 5.12 */
	"/sys/kernel/debug/sched/wakeup_granularity_ns", /* to 6.5 */
	"/sys/kernel/debug/sched/base_slice_ns",
};

void granularity_from(uint64_t tick_ns, uint64_t sched_ns,
		      const char *sched_source, struct granularity *out)
{
	const char *source = "default";
	uint64_t ns = (uint64_t)GRANULARITY_DEFAULT_US * NS_PER_US;
	uint64_t us;

	/* beyond a second is no figure to believe, and none to multiply */
	if (tick_ns > NS_PER_SECOND)
		tick_ns = 0;
	if (sched_ns > NS_PER_SECOND)
		sched_ns = 0;

	if (tick_ns && sched_ns)
		sched_ns = (sched_ns + tick_ns - 1) / tick_ns * tick_ns;
	if (sched_ns > tick_ns) {
		ns = sched_ns;
		source = sched_source;
	} else if (tick_ns) {
		ns = tick_ns;
		source = tick_source;
	}

	us = (ns + NS_PER_US - 1) / NS_PER_US;
	if (us < MIN_US)
		us = MIN_US;
	if (us > MAX_US)
		us = MAX_US;
	out->us = (uint32_t)us;
	snprintf(out->source, sizeof(out->source), "%s", source);
}

/* A file that holds one decimal number.  0 if it does not. */
static uint64_t read_number(const char *path)
{
	char text[32];
	char *end;
	uint64_t value;

	if (host_read_text(path, text, sizeof(text)) <= 0 ||
	    !isdigit((unsigned char)text[0]))
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	return errno || (*end && *end != '\n') ? 0 : value;
}

void granularity_read(struct granularity *out)
{
	struct timespec tick = { 0 };
	const char *file = NULL;
	uint64_t sched_ns = 0;
	size_t i;

	for (i = 0; i < sizeof(sched_files) / sizeof(*sched_files); i++) {
		file = sched_files[i];
		sched_ns = read_number(file);
		if (sched_ns)
			break;
	}
	if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick))
		tick = (struct timespec){ 0 };
	granularity_from((uint64_t)tick.tv_sec * NS_PER_SECOND +
				 (uint64_t)tick.tv_nsec,
			 sched_ns, file, out);
}

uint32_t granularity_align(uint32_t us, uint32_t granule_us)
{
	uint64_t max = GRANULARITY_WINDOW_MAX_US;
	uint64_t aligned;

	max -= max % granule_us;
	aligned = ((uint64_t)us + granule_us - 1) / granule_us * granule_us;
	return (uint32_t)(aligned < max ? aligned : max);
}
