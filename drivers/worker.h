/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread that does to a file what the kernel only does while the caller
 * waits: punching holes, writing zeros, flushing.  It starts with the first
 * work and ends with worker_fini.  Never logs.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include "drivers/io.h"
#include "poll/mailbox.h"

struct work {
	struct mail mail; /* first: work comes back as this letter */
	struct io *io; /* IO_FLUSH, IO_DISCARD or IO_WRITE_ZEROES */
	struct mailbox *reply;
	int err; /* the result */
	struct work *next; /* worker's own */
};

struct worker {
	int fd; /* the caller's */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct work *head, **tail;
	pthread_t thread;
	bool started, busy, stop;
};

void worker_init(struct worker *worker, int fd);
void worker_fini(struct worker *worker); /* nothing is queued any more */

/*
 * Any thread: queue @work, which comes back through work->reply.  Returns 0,
 * or -errno if the thread cannot be started, and then it does not.
 */
int worker_submit(struct worker *worker, struct work *work);

/*
 * Wait until the thread has let go of every mailbox it replied to, so that
 * those may be closed.  Their work has come back already.
 */
void worker_settle(struct worker *worker);
