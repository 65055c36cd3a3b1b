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
	bool started, stop;
	const struct mailbox *posting_to; /* NULL: to none */
};

void worker_init(struct worker *worker, int fd);
void worker_fini(struct worker *worker); /* nothing is queued any more */

/*
 * Any thread: queue @work, which comes back through work->reply.  Returns 0,
 * or -errno if the thread cannot be started, and then it does not.
 */
int worker_submit(struct worker *worker, struct work *work);

/*
 * Wait until the thread has let go of @reply, so that it may be closed: all
 * work that comes back through it has.  What others have given to the worker,
 * however much and slow that is, is not waited for.
 */
void worker_settle(struct worker *worker, const struct mailbox *reply);
