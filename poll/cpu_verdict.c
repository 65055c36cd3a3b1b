/* SPDX-License-Identifier: BSD-3-Clause */
/* A data thread tells the governor that it is needed: see cpu_verdict.h. */
#include "poll/cpu_verdict.h"

#include <errno.h>
#include <unistd.h>

void cpu_verdict_wake(struct cpu_verdict *verdict)
{
	const uint64_t one = 1;

	/*
	 * The exchange orders nothing else: whoever finds ASLEEP kicks, and the
	 * governor falls asleep only by changing QUIET, so it sees either our
	 * BUSY or our kick.
	 */
	if (__atomic_exchange_n(&verdict->watch, CPU_BUSY, __ATOMIC_RELAXED) !=
	    CPU_ASLEEP)
		return;
	while (write(verdict->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}
