/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ends a benchmark early: SIGINT, SIGTERM and the tapdisk's death.  Both
 * are looked for, at most every 10 ms, so nothing happens behind anyone's
 * back and no file-scope flag is needed.  Also the tapdisk's CPU time.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define WATCHDOG_SLICE_NS UINT64_C(100000000) /* longest wait between looks */
#define WATCHDOG_STALL_NS UINT64_C(120000000000) /* give up on answers */

/* One for each thread. */
struct watchdog {
	pid_t pid; /* 0: nobody to watch */
	uint64_t next_ns;
	int err; /* what it found, for ever */
};

/*
 * Block the two signals.  To be called before any thread is made: threads
 * inherit it.
 */
void watchdog_init(struct watchdog *w, pid_t pid);

/* 0, -EINTR (a signal came), -ESRCH (the process is gone, or a zombie). */
int watchdog_look(struct watchdog *w, uint64_t now_ns);

/*
 * CPU time of all threads of @pid, also of those that have ended, in ns.
 * 0 or -ESRCH.
 */
int watchdog_cpu_ns(pid_t pid, uint64_t *out);

/* Why a guest gave up: the two above, -EPROTO, -ETIMEDOUT (a stall), others. */
const char *watchdog_reason(int err);
