/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aio context: every way to sleep with I/O in flight, and that none loses
 * the end of one or wakes for nothing.
 *
 * This program has its own io_submit, which makes the system call, or does as a
 * kernel would that cannot poll.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include "drivers/aio.h"
#include "poll/clock.h"
#include "tests/rig.h"

static bool no_poll; /* of epoll: those of the tests carry data */

int io_submit(io_context_t context, long n, struct iocb **iocbs)
{
	long rc;

	for (long i = 0; no_poll && i < n; i++) {
		if (iocbs[i]->aio_lio_opcode != IO_CMD_POLL || iocbs[i]->data)
			continue;
		if (!i)
			return -EINVAL;
		n = i; /* the end of the loop, too */
	}
	rc = syscall(SYS_io_submit, context, n, iocbs);
	return rc < 0 ? -errno : (int)rc;
}

enum mode {
	HOOK, /* sleep in io_getevents */
	EVENTFD, /* the kernel has no poll */
	FOREIGN, /* another epoll does the waiting */
	NO_RING, /* events by system call */
	NO_RING_EVENTFD,
	SECOND, /* somebody else has the hook */
	NR_MODES
};

struct bench {
	enum mode mode;
	struct wait wait;
	struct aio_context context, first;
	struct iocb iocb; /* ends when iocb_fd is written: slow as we like */
	struct iocb first_iocb;
	int iocb_fd;
	struct wait_source source; /* somebody else's, on other_fd */
	int other_fd;
	unsigned woken;
};

static void woken(void *arg)
{
	struct bench *b = arg;
	uint64_t count;

	ck_assert_int_eq(read(b->other_fd, &count, sizeof(count)),
			 sizeof(count));
	b->woken++;
}

static void submit_slow(struct aio_context *context, struct iocb *iocb, int fd)
{
	io_prep_poll(iocb, fd, POLLIN);
	iocb->data = iocb;
	aio_context_add(context, iocb);
	ck_assert_int_eq(aio_context_submit(context, 1, &iocb), 1);
}

static void bench_open(struct bench *b, enum mode mode)
{
	*b = (struct bench){ .mode = mode };
	ck_assert_int_eq(wait_init(&b->wait, mode == FOREIGN), 0);
	no_poll = mode == EVENTFD || mode == NO_RING_EVENTFD;
	b->iocb_fd = eventfd(0, EFD_NONBLOCK);
	b->other_fd = eventfd(0, EFD_NONBLOCK);
	b->source = (struct wait_source){
		.woken = woken,
		.arg = b,
		.due_ns = CLOCK_NEVER,
	};
	ck_assert_int_eq(wait_add(&b->wait, &b->source, NULL), 0);
	ck_assert_int_eq(
		wait_add_fd(&b->wait, &b->source, b->other_fd, EPOLLIN), 0);
	if (mode == SECOND) {
		ck_assert_int_eq(aio_context_open(&b->first, &b->wait, 4), 0);
		submit_slow(&b->first, &b->first_iocb, b->iocb_fd);
		ck_assert(b->first.hooked);
	}
	ck_assert_int_eq(aio_context_open(&b->context, &b->wait, 4), 0);
	ck_assert_ptr_nonnull(b->context.ring);
	if (mode == NO_RING || mode == NO_RING_EVENTFD) {
		b->context.ring = NULL;
		wait_watch(&b->wait, &b->context.source, NULL, 0);
	}
}

static void bench_close(struct bench *b)
{
	if (b->mode == SECOND)
		aio_context_close(&b->first);
	aio_context_close(&b->context);
	ck_assert_ptr_null(b->wait.sleep);
	wait_remove_fd(&b->wait, b->other_fd);
	wait_remove(&b->wait, &b->source);
	wait_fini(&b->wait);
	close(b->iocb_fd);
	close(b->other_fd);
}

/* Sleep once, as the owner of this wait does. */
static void doze(struct bench *b)
{
	struct pollfd pfd = { .fd = b->wait.epoll_fd, .events = POLLIN };

	if (b->mode != FOREIGN) {
		wait_for(&b->wait, false, false);
		return;
	}
	if (wait_arm(&b->wait))
		return;
	ck_assert_int_eq(poll(&pfd, 1, 30000), 1);
	wait_awake(&b->wait);
}

/* How many of ours ended. */
static unsigned take(struct bench *b)
{
	struct io_event event;
	unsigned n = 0;

	if (b->mode == SECOND) {
		aio_context_begin(&b->first);
		while (aio_context_take(&b->first, &event))
			;
		aio_context_rest(&b->first);
	}
	aio_context_begin(&b->context);
	for (; aio_context_take(&b->context, &event); n++)
		ck_assert_ptr_eq(event.data, &b->iocb);
	aio_context_rest(&b->context);
	return n;
}

static void *ring_later(void *arg)
{
	const int *fd = arg;
	uint64_t one = 1;

	usleep(5000);
	ck_assert_int_eq(write(*fd, &one, sizeof(one)), sizeof(one));
	return NULL;
}

/* Time and again, as what is left of one sleep may spoil the next. */
START_TEST(a_sleep_ends_with_an_io_or_with_a_descriptor)
{
	struct bench b;
	pthread_t thread;
	uint64_t count;
	unsigned ended;

	bench_open(&b, (enum mode)_i);
	for (unsigned round = 1; round <= 20; round++) {
		submit_slow(&b.context, &b.iocb, b.iocb_fd);
		ck_assert_int_eq(b.context.hooked, _i == HOOK || _i == NO_RING);
		pthread_create(&thread, NULL, ring_later, &b.other_fd);
		for (unsigned n = 0; b.woken < round; n++) {
			ck_assert_uint_lt(n, 100); /* that is no sleep */
			doze(&b);
			ck_assert_uint_eq(take(&b), 0);
		}
		pthread_join(thread, NULL);
		pthread_create(&thread, NULL, ring_later, &b.iocb_fd);
		ended = 0;
		for (unsigned n = 0; !ended; n++) {
			ck_assert_uint_lt(n, 100);
			doze(&b);
			ended += take(&b);
		}
		pthread_join(thread, NULL);
		ck_assert_uint_eq(ended, 1);
		ck_assert_uint_eq(b.woken, round);
		ck_assert_uint_eq(b.context.pending, 0);
		ck_assert_ptr_null(b.wait.sleep);
		ck_assert_int_eq(read(b.iocb_fd, &count, sizeof(count)),
				 sizeof(count));
		if (_i == SECOND)
			submit_slow(&b.first, &b.first_iocb, b.iocb_fd);
	}
	if (_i == SECOND) {
		count = 1;
		ck_assert_int_eq(write(b.iocb_fd, &count, sizeof(count)),
				 sizeof(count));
		while (b.first.pending) {
			doze(&b);
			take(&b);
		}
	}
	bench_close(&b);
}
END_TEST

/* Nothing is lost between the look and the sleep. */
START_TEST(an_io_that_ended_before_the_sleep_prevents_it)
{
	struct bench b;
	uint64_t one = 1;

	bench_open(&b, (enum mode)_i);
	submit_slow(&b.context, &b.iocb, b.iocb_fd);
	ck_assert_uint_eq(take(&b), 0);
	/* after that look, and before the sleep's own */
	ck_assert_int_eq(write(b.iocb_fd, &one, sizeof(one)), sizeof(one));
	usleep(5000); /* the kernel ends it in a thread of its own */
	do
		doze(&b);
	while (!take(&b));
	bench_close(&b);
}
END_TEST

/* With nothing pending, no eventfd keeps the descriptor readable. */
START_TEST(an_idle_wait_sleeps_until_its_date)
{
	struct bench b;
	uint64_t one = 1;

	bench_open(&b, (enum mode)_i);
	submit_slow(&b.context, &b.iocb, b.iocb_fd);
	b.source.due_ns = clock_ns() + 1000000;
	doze(&b);
	ck_assert_int_eq(write(b.iocb_fd, &one, sizeof(one)), sizeof(one));
	while (!take(&b))
		;
	/* the first may find what the io left behind */
	b.source.due_ns = clock_ns() + 10 * 1000000;
	doze(&b);
	take(&b);
	b.source.due_ns = clock_ns() + 50 * 1000000;
	doze(&b);
	ck_assert_uint_ge(clock_ns() + 1000000, b.source.due_ns);
	bench_close(&b);
}
END_TEST

/*
 * The kernel shows an event and then writes to the eventfd, and who sees the
 * one may be asleep again before the other.
 */
START_TEST(a_late_eventfd_wakes_once)
{
	struct pollfd pfd = { .events = POLLIN };
	struct bench b;
	uint64_t one = 1, late;
	unsigned n;

	bench_open(&b, (enum mode)_i);
	submit_slow(&b.context, &b.iocb, b.iocb_fd);
	ck_assert_int_eq(write(b.iocb_fd, &one, sizeof(one)), sizeof(one));
	while (!take(&b))
		;
	/* not written yet */
	pfd.fd = b.context.event_fd;
	ck_assert_int_eq(poll(&pfd, 1, 30000), 1);
	ck_assert_int_eq(read(pfd.fd, &late, sizeof(late)), sizeof(late));
	b.source.due_ns = clock_ns() + 10 * 1000000;
	doze(&b);
	take(&b);
	ck_assert_int_eq(write(pfd.fd, &late, sizeof(late)), sizeof(late));
	b.source.due_ns = clock_ns() + 50 * 1000000;
	for (n = 0; clock_ns() < b.source.due_ns; n++) {
		doze(&b);
		take(&b);
	}
	ck_assert_uint_le(n, 10); /* that is no sleep */
	bench_close(&b);
}
END_TEST

START_TEST(a_date_ends_a_sleep_with_io_in_flight)
{
	struct bench b;
	uint64_t one = 1;

	bench_open(&b, (enum mode)_i);
	submit_slow(&b.context, &b.iocb, b.iocb_fd);
	b.source.due_ns = clock_ns() + 20 * 1000000;
	while (clock_ns() < b.source.due_ns)
		doze(&b);
	ck_assert_uint_eq(take(&b), 0);
	b.source.due_ns = CLOCK_NEVER;
	ck_assert_int_eq(write(b.iocb_fd, &one, sizeof(one)), sizeof(one));
	while (!take(&b))
		doze(&b);
	bench_close(&b);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("aio_context");
	TCase *context = tcase_create("context");

	tcase_set_timeout(context, 10);
	tcase_add_loop_test(context,
			    a_sleep_ends_with_an_io_or_with_a_descriptor, 0,
			    NR_MODES);
	tcase_add_loop_test(context,
			    an_io_that_ended_before_the_sleep_prevents_it, 0,
			    SECOND);
	tcase_add_loop_test(context, an_idle_wait_sleeps_until_its_date, 0,
			    SECOND);
	tcase_add_loop_test(context, a_late_eventfd_wakes_once, EVENTFD,
			    FOREIGN + 1);
	tcase_add_loop_test(context, a_date_ends_a_sleep_with_io_in_flight, 0,
			    SECOND);
	suite_add_tcase(suite, context);
	return rig_run(suite);
}
