/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main thread's event loop, on epoll.  A turn runs the deferred work, the
 * timers that are due, and then one descriptor: asking epoll for a single
 * event each time costs a system call more, and in exchange there is no list
 * of events in which a watch could be freed before its turn comes.
 */
#include "poll/loop.h"
#include "poll/clock.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct loop {
	int epoll_fd;
	bool stopped;
	struct loop_timer *timers; /* earliest first */
	struct loop_defer *defers; /* oldest first */
	unsigned nr_defers;
};

int loop_open(struct loop **out)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int err;

	if (!loop)
		return -ENOMEM;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0) {
		err = -errno;
		free(loop);
		return err;
	}
	*out = loop;
	return 0;
}

void loop_close(struct loop *loop)
{
	close(loop->epoll_fd);
	free(loop);
}

int loop_watch(struct loop *loop, struct loop_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	if (!epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event))
		return 0;
	if (errno == EEXIST &&
	    !epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event))
		return 0;
	return -errno;
}

void loop_unwatch(struct loop *loop, struct loop_watch *watch)
{
	struct epoll_event unused; /* kernels before 2.6.9 wanted one */

	if (watch->fd >= 0)
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, &unused);
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer,
		    uint64_t delay_ns)
{
	uint64_t now = clock_ns();
	struct loop_timer **at;

	loop_timer_clear(loop, timer);
	timer->due_ns =
		delay_ns < CLOCK_NEVER - now ? now + delay_ns : CLOCK_NEVER;
	/* behind those of the same date, so that they run in order */
	at = &loop->timers;
	while (*at && (*at)->due_ns <= timer->due_ns)
		at = &(*at)->next;
	timer->next = *at;
	timer->armed = true;
	*at = timer;
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer)
{
	struct loop_timer **at;

	if (!timer->armed)
		return;
	for (at = &loop->timers; *at != timer; at = &(*at)->next)
		assert(*at);
	*at = timer->next;
	timer->next = NULL;
	timer->armed = false;
}

void loop_defer(struct loop *loop, struct loop_defer *defer)
{
	struct loop_defer **at;

	if (defer->queued)
		return;
	for (at = &loop->defers; *at; at = &(*at)->next)
		;
	defer->next = NULL;
	defer->queued = true;
	*at = defer;
	loop->nr_defers++;
}

void loop_defer_cancel(struct loop *loop, struct loop_defer *defer)
{
	struct loop_defer **at;

	if (!defer->queued)
		return;
	for (at = &loop->defers; *at != defer; at = &(*at)->next)
		assert(*at);
	*at = defer->next;
	defer->next = NULL;
	defer->queued = false;
	loop->nr_defers--;
}

/*
 * As many as there are now: one that defers itself again gets its turn after
 * the descriptors, for which the loop looks without sleeping then.
 */
static void run_defers(struct loop *loop)
{
	unsigned left = loop->nr_defers;
	struct loop_defer *defer;

	for (; left && loop->defers && !loop->stopped; left--) {
		defer = loop->defers;
		loop_defer_cancel(loop, defer);
		defer->fn(defer->arg);
	}
}

/* Those that are due now, not what they set meanwhile. */
static void run_timers(struct loop *loop)
{
	struct loop_timer *timer;
	uint64_t now;

	if (!loop->timers)
		return;
	now = clock_ns();
	while (loop->timers && loop->timers->due_ns < now && !loop->stopped) {
		timer = loop->timers;
		loop_timer_clear(loop, timer);
		timer->fn(timer->arg);
	}
}

/* Milliseconds that epoll may sleep; rounded upwards, or we spin at the end. */
static int timeout_ms(const struct loop *loop)
{
	uint64_t now, ms;

	if (loop->defers)
		return 0;
	if (!loop->timers || loop->timers->due_ns == CLOCK_NEVER)
		return -1;
	now = clock_ns();
	if (loop->timers->due_ns < now)
		return 0;
	ms = (loop->timers->due_ns - now) / (CLOCK_SECOND / 1000) + 1;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

static int run_descriptor(struct loop *loop)
{
	struct epoll_event event;
	struct loop_watch *watch;
	int ready;

	ready = epoll_wait(loop->epoll_fd, &event, 1, timeout_ms(loop));
	if (ready < 0)
		return errno == EINTR ? 0 : -errno;
	if (ready) {
		watch = event.data.ptr;
		watch->fn(watch->arg, event.events);
	}
	return 0;
}

int loop_run(struct loop *loop)
{
	int err = 0;

	loop->stopped = false;
	while (!loop->stopped && !err) {
		run_defers(loop);
		run_timers(loop);
		if (!loop->stopped)
			err = run_descriptor(loop);
	}
	return err;
}

void loop_stop(struct loop *loop)
{
	loop->stopped = true;
}
