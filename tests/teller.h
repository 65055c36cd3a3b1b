/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three sources of a wait, which write down what they are asked and told.
 * Header only, for tests only; one wait to a test.
 */
#pragma once

#include <check.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/wait.h"

static char said[64];

static inline void say(char what, char who)
{
	size_t len = strlen(said);

	ck_assert_uint_lt(len, sizeof(said) - 3);
	said[len] = what;
	said[len + 1] = who;
	said[len + 2] = ' ';
}

struct teller {
	struct wait_source source;
	char name;
	bool busy; /* what arm answers */
	uint64_t sets_due; /* 0, or the date that arm sets */
	int fd; /* an eventfd; woken empties it */
};

static inline bool tell_arm(void *arg)
{
	struct teller *t = arg;

	say('a', t->name);
	if (t->sets_due)
		t->source.due_ns = t->sets_due;
	return t->busy;
}

static inline void tell_disarm(void *arg)
{
	say('d', ((struct teller *)arg)->name);
}

static inline void tell_woken(void *arg)
{
	struct teller *t = arg;
	uint64_t count;

	say('w', t->name);
	ck_assert_int_eq(read(t->fd, &count, sizeof(count)), sizeof(count));
}

static struct wait waiter;
static struct teller a, b, c;

static inline void teller_add(struct teller *t, char name, uint32_t events)
{
	*t = (struct teller){ .source = { .arm = tell_arm,
					  .disarm = tell_disarm,
					  .woken = tell_woken,
					  .arg = t,
					  .due_ns = CLOCK_NEVER },
			      .name = name,
			      .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	ck_assert_int_ge(t->fd, 0);
	ck_assert_int_eq(wait_add(&waiter, &t->source, NULL), 0);
	ck_assert_int_eq(wait_add_fd(&waiter, &t->source, t->fd, events), 0);
}

static inline void tellers_open(bool foreign)
{
	memset(said, 0, sizeof(said));
	ck_assert_int_eq(wait_init(&waiter, foreign), 0);
	teller_add(&a, 'a', EPOLLIN);
	teller_add(&b, 'b', EPOLLIN);
	teller_add(&c, 'c', EPOLLIN);
}

static inline void tellers_close(void)
{
	wait_fini(&waiter);
	close(a.fd);
	close(b.fd);
	close(c.fd);
}

static inline void teller_ring(int fd)
{
	ck_assert_int_eq(eventfd_write(fd, 1), 0);
}

/* What was said since the last time. */
static inline void assert_said(const char *want)
{
	ck_assert_str_eq(said, want);
	memset(said, 0, sizeof(said));
}

static inline bool epoll_ready(int timeout_ms)
{
	struct pollfd p = { .fd = waiter.epoll_fd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) == 1;
}
