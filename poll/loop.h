/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main thread's event loop: descriptors, timers and work put off to the
 * end of the turn.  It may be slow and may call anything; requests of a guest
 * never pass through it.  One thread only.  Never logs.
 *
 * The structures are embedded in whatever they belong to and are owned by the
 * caller; a callback may remove, or free, any of them, its own included.
 */
#pragma once

#include <stdint.h>

struct loop;

int loop_open(struct loop **out); /* 0, -ENOMEM or -errno of epoll_create1 */
void loop_close(struct loop *loop); /* nothing may be watched any more */
int loop_run(struct loop *loop); /* until loop_stop; 0 or -errno of epoll */
void loop_stop(struct loop *loop); /* only from a callback */

struct loop_watch {
	int fd;
	void (*fn)(void *arg, uint32_t events); /* EPOLLIN... that are ready */
	void *arg;
};

/*
 * Call watch->fn whenever watch->fd is ready for @events (EPOLLIN...;
 * level-triggered; EPOLLHUP and EPOLLERR always).  Calling it again on a
 * watched descriptor changes the events.
 *
 * Returns 0 or -errno of epoll_ctl.
 */
int loop_watch(struct loop *loop, struct loop_watch *watch, uint32_t events);

/* Before the descriptor is closed.  Harmless if it is not watched. */
void loop_unwatch(struct loop *loop, struct loop_watch *watch);

struct loop_timer {
	void (*fn)(void *arg);
	void *arg;
	/* loop's own; zero before the first use */
	uint64_t due_ns;
	struct loop_timer *next;
	int armed;
};

/* Call timer->fn once, @delay_ns from now or later; replaces an earlier date.
 */
void loop_timer_set(struct loop *loop, struct loop_timer *timer,
		    uint64_t delay_ns);
/* Harmless if it is not set. */
void loop_timer_clear(struct loop *loop, struct loop_timer *timer);

struct loop_defer {
	void (*fn)(void *arg);
	void *arg;
	/* loop's own; zero before the first use */
	struct loop_defer *next;
	int queued;
};

/* Call defer->fn once before the loop sleeps again.  Again: still once. */
void loop_defer(struct loop *loop, struct loop_defer *defer);
void loop_defer_cancel(struct loop *loop, struct loop_defer *defer);
