/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One database from creation to proof: open it, run the workload, check it,
 * close it, open it again and check once more.  Where the database lies is the
 * caller's business.
 */
#pragma once

#include <stdint.h>
#include "tests/bench/watchdog.h"
#include "tests/bench/workload.h"

struct trial {
	const char *name, *vfs; /* for database_open */
	const char *journal;
	const struct workload *workload;
	struct watchdog watchdog;
	/* Around the measured part, and while the database is closed; may be
	 * NULL.  0 or -errno. */
	int (*before)(void *arg);
	int (*after)(void *arg);
	int (*reopen)(void *arg);
	void *arg;
	/* results */
	struct workload_result result;
	char integrity[256]; /* "ok", or what is wrong */
	char why[256]; /* an error */
};

/*
 * 0; -EILSEQ if the database is not what was written (see integrity); -errno
 * (see why).
 */
int trial_run(struct trial *t);

/*
 * N trials at once, a thread each, on files PATH, or PATH.0 and up, which must
 * not be there and are removed at the end; commits and latencies are summed up
 * in
 * @out, with the words of the first that failed.
 */
int trial_run_copies(const struct trial *pattern, const char *path, unsigned n,
		     struct trial *out);
