/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One AIO context of the kernel's, and the ways for one thread to wait for it.
 *
 * Completions are read from the ring that the kernel maps into the process.
 * Submissions carry no eventfd, which would cost 8 to 10 % at depth: to sleep
 * with I/O in flight, one IOCB_CMD_POLL watches the descriptor of the wait
 * engine, and io_getevents sleeps for both.  Where that cannot be had (old
 * kernels, a foreign wait, a second context on the same wait) submissions
 * carry one after all.
 *
 * Knows iocbs and nothing of what they are for.  One thread.  Never logs.
 */
#pragma once

#include <libaio.h>
#include <stdbool.h>
#include <stdint.h>
#include "poll/wait.h"

/* As the kernel lays it out; believed only after a look at the first line. */
struct aio_ring {
	uint32_t id;
	uint32_t nr; /* slots in events */
	uint32_t head; /* next to read: ours to move */
	uint32_t tail; /* next to be written: the kernel's */
	uint32_t magic;
	uint32_t compat_features;
	uint32_t incompat_features;
	uint32_t header_length;
	struct io_event events[];
};

struct aio_context {
	io_context_t id;
	struct aio_ring *ring; /* NULL: read events by system call */
	struct wait *wait;
	struct wait_source source; /* its word: the ring's tail */
	unsigned pending; /* added and not taken */
	unsigned in_kernel; /* of these: submitted */
	bool no_poll; /* this kernel or this wait cannot do it with poll */
	bool hooked; /* our hook is in wait: no eventfd is needed */
	bool polling; /* poll is in the kernel */
	unsigned signals; /* to event_fd, owed by the kernel or not yet read */
	bool has_kept;
	int event_fd;
	struct iocb poll;
	struct io_event kept; /* that ended a sleep */
};

/*
 * A context for @depth iocbs at a time on @wait.  -errno of io_setup (-EAGAIN:
 * the host's limit), of wait_add, eventfd or epoll_ctl.
 */
int aio_context_open(struct aio_context *context, struct wait *wait,
		     unsigned depth);
void aio_context_close(struct aio_context *context); /* nothing in flight */

/*
 * Add @iocb, prepared, to what is pending, and make its end end a sleep.  Its
 * data is the caller's, and not NULL.
 */
void aio_context_add(struct aio_context *context, struct iocb *iocb);
/* It is not going to be submitted. */
void aio_context_drop(struct aio_context *context);

/*
 * io_submit.  How many of the @n added @iocbs the kernel took, at least one,
 * or -errno: why it did not take the first.
 */
int aio_context_submit(struct aio_context *context, unsigned n,
		       struct iocb **iocbs);

/*
 * What ended.  aio_context_begin, then take until false; between the two the
 * ring's tail is not watched.
 */
void aio_context_begin(struct aio_context *context);
bool aio_context_take(struct aio_context *context, struct io_event *event);

/* The turn is over: with nothing pending the thread sleeps without us. */
void aio_context_rest(struct aio_context *context);
