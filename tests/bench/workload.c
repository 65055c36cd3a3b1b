/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transactions, one after the other; see workload.h.
 */
#include "tests/bench/workload.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "poll/clock.h"
#include "tests/bench/database.h"
#include "tests/bench/watchdog.h"

/* One row is its own transaction; *@commit_ns is the commit's time alone. */
static int transaction(const struct workload *w, struct database *d,
		       uint64_t first, uint64_t *commit_ns)
{
	uint64_t begin_ns;
	uint32_t i;
	int err;

	if (w->rows == 1) {
		begin_ns = clock_ns();
		err = database_insert(d, first);
		*commit_ns = clock_ns() - begin_ns;
		return err;
	}
	err = database_begin(d);
	for (i = 0; i < w->rows && !err; i++)
		err = database_insert(d, first + i);
	if (err)
		return err;
	begin_ns = clock_ns();
	err = database_commit(d);
	*commit_ns = clock_ns() - begin_ns;
	return err;
}

static int think(const struct workload *w, struct watchdog *watchdog)
{
	uint64_t end_ns = clock_ns() + w->think_ns, now_ns, until_ns;
	struct timespec until;
	int err;

	while ((now_ns = clock_ns()) < end_ns) {
		err = watchdog_look(watchdog, now_ns);
		if (err)
			return err;
		if (w->spin)
			continue;
		until_ns = now_ns + WATCHDOG_SLICE_NS;
		if (until_ns > end_ns)
			until_ns = end_ns;
		until.tv_sec = (time_t)(until_ns / CLOCK_SECOND);
		until.tv_nsec = (long)(until_ns % CLOCK_SECOND);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	return watchdog_look(watchdog, now_ns);
}

int workload_run(const struct workload *w, struct database *d,
		 struct watchdog *watchdog, struct workload_result *out)
{
	uint64_t begin_ns = clock_ns(), commit_ns = 0, next = 1;
	int err = 0;

	memset(out, 0, sizeof(*out));
	while (out->commits < w->transactions) {
		err = out->commits ? think(w, watchdog) : 0;
		if (!err)
			err = transaction(w, d, next, &commit_ns);
		if (err)
			break;
		next += w->rows;
		out->commits++;
		histogram_add(&out->commit, commit_ns);
		if (w->acked) {
			fprintf(w->acked, "%" PRIu64 "\n", next - 1);
			fflush(w->acked);
		}
	}
	out->elapsed_ns = clock_ns() - begin_ns;
	return err;
}
