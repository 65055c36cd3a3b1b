/* SPDX-License-Identifier: BSD-3-Clause */
/* See wait_sleep.h.  Nothing here runs while a thread spins. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/counter.h"
#include "poll/wait_sleep.h"

enum {
	/* The same number on every architecture; in Linux since 5.11. */
	NR_EPOLL_PWAIT2 = 441,
};

static int control_fd(struct wait *wait, int op, struct wait_source *source,
		      int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	return epoll_ctl(wait->epoll_fd, op, fd, &event) < 0 ? -errno : 0;
}

int wait_add_fd(struct wait *wait, struct wait_source *source, int fd,
		uint32_t events)
{
	return control_fd(wait, EPOLL_CTL_ADD, source, fd, events);
}

int wait_rearm_fd(struct wait *wait, struct wait_source *source, int fd,
		  uint32_t events)
{
	return control_fd(wait, EPOLL_CTL_MOD, source, fd, events);
}

void wait_remove_fd(struct wait *wait, int fd)
{
	control_fd(wait, EPOLL_CTL_DEL, NULL, fd, 0);
}

void wait_set_sleep(struct wait *wait, int (*sleep_fn)(void *, uint64_t),
		    void *arg)
{
	wait->sleep = sleep_fn;
	wait->sleep_arg = arg;
}

static void disarm(struct wait *wait, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (wait->sources[i] && wait->sources[i]->disarm)
			wait->sources[i]->disarm(wait->sources[i]->arg);
}

/*
 * Every source asks to be woken and then looks.  Whatever comes after its look
 * makes its descriptor readable, so nothing falls between look and sleep.
 */
static bool arm(struct wait *wait)
{
	counter_add(&wait->counters.arms, 1);
	for (unsigned i = 0; i < wait->nr_words; i++) {
		struct wait_source *source = wait->sources[i];

		if (source && source->arm && source->arm(source->arg)) {
			disarm(wait, i + 1);
			return true;
		}
	}
	return false;
}

/* Tell the sources whose descriptors are ready; @timeout as epoll_wait's. */
static void collect(struct wait *wait, int timeout)
{
	struct epoll_event events[WAIT_SOURCES_MAX];
	struct wait_source *source;
	uint64_t expirations;
	int n;

	n = epoll_wait(wait->epoll_fd, events, WAIT_SOURCES_MAX, timeout);
	for (int i = 0; i < n; i++) {
		source = events[i].data.ptr;
		if (source && source->woken)
			source->woken(source->arg);
		if (!source &&
		    read(wait->timer_fd, &expirations, sizeof(expirations)) < 0)
			continue; /* it was set anew meanwhile */
	}
}

/* Make epoll_fd readable at @due. */
static int set_timer(struct wait *wait, uint64_t due)
{
	struct itimerspec at = {
		.it_value.tv_sec = due == CLOCK_NEVER ? 0 : due / CLOCK_SECOND,
		.it_value.tv_nsec = due == CLOCK_NEVER ? 0 : due % CLOCK_SECOND,
	};
	int err;

	if (due == 0)
		at.it_value.tv_nsec = 1; /* zero is how timerfd spells never */

	if (wait->timer_fd < 0) {
		wait->timer_fd = timerfd_create(CLOCK_MONOTONIC,
						TFD_NONBLOCK | TFD_CLOEXEC);
		if (wait->timer_fd < 0)
			return -errno;
		err = wait_add_fd(wait, NULL, wait->timer_fd, EPOLLIN);
		if (err) {
			close(wait->timer_fd);
			wait->timer_fd = -1;
			return err;
		}
	}
	if (timerfd_settime(wait->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) < 0)
		return -errno;
	return 0;
}

/* Sleep in epoll until @due, to the nanosecond. */
static void sleep_epoll(struct wait *wait, uint64_t due, uint64_t timeout_ns)
{
	struct epoll_event events[WAIT_SOURCES_MAX];
	struct timespec ts = {
		.tv_sec = timeout_ns / CLOCK_SECOND,
		.tv_nsec = timeout_ns % CLOCK_SECOND,
	};
	struct wait_source *source;
	long n;

	if (due == CLOCK_NEVER) {
		collect(wait, -1);
		return;
	}
	if (!wait->no_pwait2) {
		n = syscall(NR_EPOLL_PWAIT2, wait->epoll_fd, events,
			    WAIT_SOURCES_MAX, &ts, NULL, 0);
		for (long i = 0; i < n; i++) {
			source = events[i].data.ptr;
			if (source && source->woken)
				source->woken(source->arg);
		}
		if (n >= 0 || errno == EINTR)
			return;
		/* ENOSYS, or EPERM from a filter that is older than the call */
		wait->no_pwait2 = true;
	}
	if (set_timer(wait, due))
		collect(wait, (int)(timeout_ns / 1000000) + 1);
	else
		collect(wait, -1);
}

bool wait_sleep_until(struct wait *wait, uint64_t until)
{
	uint64_t due, now = 0, timeout = CLOCK_NEVER;

	if (arm(wait)) {
		gaps_found(wait->gaps, &wait->gap);
		return false;
	}
	due = wait_sleep_due(wait); /* arming may set a date */
	if (until < due)
		due = until;
	if (due != CLOCK_NEVER || wait->gaps)
		now = clock_ns();
	if (due != CLOCK_NEVER)
		timeout = due > now ? due - now : 0;
	gaps_start(&wait->gap, now);
	counter_add(&wait->counters.sleeps, 1);
	if (!wait->sleep)
		sleep_epoll(wait, due, timeout);
	else if (wait->sleep(wait->sleep_arg, timeout))
		collect(wait, 0);
	disarm(wait, wait->nr_words);
	return true;
}

bool wait_arm(struct wait *wait)
{
	uint64_t due;

	if (arm(wait))
		return true;
	due = wait_sleep_due(wait);
	/* an unset clock need not be made only to be unset again */
	if ((due != CLOCK_NEVER || wait->timer_fd >= 0) &&
	    set_timer(wait, due) && due != CLOCK_NEVER) {
		disarm(wait, wait->nr_words);
		return true; /* no clock: look again rather than too late */
	}
	return false;
}

void wait_awake(struct wait *wait)
{
	collect(wait, 0);
	disarm(wait, wait->nr_words);
}
