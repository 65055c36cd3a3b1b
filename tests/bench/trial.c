/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One database from creation to proof; see trial.h.
 */
#include "tests/bench/trial.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tests/bench/database.h"

static int check(struct trial *t, struct database *d, const char *when)
{
	uint64_t want = t->result.commits * t->workload->rows, rows = 0;
	int err = database_check(d, &rows);

	if (err == -EILSEQ)
		snprintf(t->integrity, sizeof(t->integrity), "%s: %.200s", when,
			 d->why);
	if (err || rows == want)
		return err;
	snprintf(t->integrity, sizeof(t->integrity),
		 "%s: %" PRIu64 " rows instead of %" PRIu64, when, rows, want);
	return -EILSEQ;
}

static int measure(struct trial *t, struct database *d)
{
	int err = t->before ? t->before(t->arg) : 0;

	if (!err)
		err = workload_run(t->workload, d, &t->watchdog, &t->result);
	if (!err && t->after)
		err = t->after(t->arg);
	return err;
}

/* Always closes; keeps what is known of the first error. */
static int close_database(struct trial *t, struct database *d, int err)
{
	if (err && err != -EILSEQ)
		snprintf(t->why, sizeof(t->why), "%s",
			 d->why[0] ? d->why : watchdog_reason(err));
	if (database_close(d) && !err) {
		snprintf(t->why, sizeof(t->why), "close failed");
		err = -EIO;
	}
	return err;
}

int trial_run(struct trial *t)
{
	struct database d;
	int err;

	snprintf(t->integrity, sizeof(t->integrity), "not checked");
	err = database_open(&d, t->name, t->vfs, t->journal);
	if (!err)
		err = measure(t, &d);
	if (!err)
		err = check(t, &d, "at the end");
	err = close_database(t, &d, err);
	if (!err && t->reopen)
		err = t->reopen(t->arg);
	if (err)
		return err;
	err = database_open(&d, t->name, t->vfs, NULL);
	if (!err)
		err = check(t, &d, "after reopening");
	err = close_database(t, &d, err);
	if (!err)
		snprintf(t->integrity, sizeof(t->integrity), "ok");
	return err;
}
