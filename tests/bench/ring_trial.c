/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The benchmark's database on a tapdisk's disk; see ring_trial.h.
 */
#include "tests/bench/ring_trial.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/database.h"

static int complain(const struct ring_trial *r, int err)
{
	const char *why = r->ring.err	   ? watchdog_reason(r->ring.err)
			  : err == -ENOSPC ? "the disk is smaller than 1 MiB"
					   : strerror(-err);

	fprintf(stderr, "%s: %s\n", r->session.options->program, why);
	return err;
}

int ring_trial_open(struct ring_trial *r, const struct session_options *options)
{
	int err;

	memset(r, 0, sizeof(*r));
	watchdog_init(&r->watchdog, (pid_t)options->pid);
	err = session_open(options, &r->session);
	if (err)
		return err;
	block_ring_init(&r->ring, &r->session, &r->watchdog);
	r->vfs = calloc(1, sizeof(*r->vfs));
	err = r->vfs ? vfs_init(r->vfs, &r->ring.block) : -ENOMEM;
	if (!err)
		return 0;
	complain(r, err);
	free(r->vfs);
	session_close(&r->session);
	return err;
}

void ring_trial_close(struct ring_trial *r)
{
	if (r->vfs) {
		vfs_fini(r->vfs);
		free(r->vfs);
	}
	session_close(&r->session);
}

static int count_before(void *arg)
{
	struct ring_trial *r = arg;

	return session_counters_read(&r->session, &r->before);
}

static int count_after(void *arg)
{
	struct ring_trial *r = arg;

	return session_counters_read(&r->session, &r->after);
}

/* Forget what the VFS knows, so that the disk has to tell. */
static int reopen(void *arg)
{
	struct ring_trial *r = arg;
	int err;

	vfs_fini(r->vfs);
	err = vfs_init(r->vfs, &r->ring.block);
	if (err) {
		free(r->vfs);
		r->vfs = NULL;
	}
	return err;
}

int ring_trial_run(struct ring_trial *r, struct trial *t, double *cpu_us)
{
	int err;

	t->name = VFS_DATABASE;
	t->vfs = VFS_NAME;
	t->before = count_before;
	t->after = count_after;
	t->reopen = reopen;
	t->arg = r;
	err = vfs_wipe(r->vfs);
	if (!err)
		err = trial_run(t);
	if (t->result.commits)
		*cpu_us = (double)(r->after.cpu_ns - r->before.cpu_ns) / 1e3 /
			  (double)t->result.commits;
	/* why the ring was given up says more than SQLite's I/O error */
	if (r->ring.err || (err && !t->why[0]))
		snprintf(t->why, sizeof(t->why), "%s",
			 watchdog_reason(r->ring.err ? r->ring.err : err));
	return r->ring.err ? r->ring.err : err;
}

int ring_trial_check(struct ring_trial *r, FILE *acked, uint64_t *rows,
		     char *why, size_t size)
{
	struct database d;
	int err;

	if (!vfs_has_database(r->vfs)) {
		snprintf(why, size, "there is no database on the disk");
		return -ENOENT;
	}
	err = database_open(&d, VFS_DATABASE, VFS_NAME, NULL);
	if (!err)
		err = database_check(&d, rows);
	if (!err && acked)
		err = database_check_acked(&d, acked);
	if (err)
		snprintf(why, size, "%s",
			 r->ring.err ? watchdog_reason(r->ring.err) : d.why);
	if (database_close(&d) && !err) {
		snprintf(why, size, "close failed");
		err = -EIO;
	}
	return err;
}
