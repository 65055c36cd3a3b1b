/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The benchmark's database on a tapdisk's disk: session, ring, VFS, and a
 * trial on top.
 */
#pragma once

#include "tests/bench/block_ring.h"
#include "tests/bench/session.h"
#include "tests/bench/trial.h"
#include "tests/bench/vfs.h"

struct ring_trial {
	struct session session;
	struct watchdog watchdog;
	struct block_ring ring;
	struct vfs *vfs; /* its windows are large */
	struct session_counters before, after;
};

/* Signals are blocked already.  0 or -errno, after a complaint. */
int ring_trial_open(struct ring_trial *r,
		    const struct session_options *options);
void ring_trial_close(struct ring_trial *r);

/*
 * Run @t on a disk without files; tapdisk's CPU time per commit at @cpu_us.
 * As trial_run.
 */
int ring_trial_run(struct ring_trial *r, struct trial *t, double *cpu_us);

/*
 * Open what is on the disk, recover and check it; with @acked these rows must
 * be there.  0, else -errno and the reason at @why.
 */
int ring_trial_check(struct ring_trial *r, FILE *acked, uint64_t *rows,
		     char *why, size_t size);
