/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main loop: what it calls, in which order, how often, and that callbacks
 * may do anything to what it holds.
 */
#include "poll/clock.h"
#include "poll/loop.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static struct loop *loop;
static char said[64]; /* what was called, a letter each */

static void say(char letter)
{
	size_t len = strlen(said);

	ck_assert_uint_lt(len, sizeof(said) - 1);
	said[len] = letter;
}

static void setup(void)
{
	memset(said, 0, sizeof(said));
	ck_assert_int_eq(loop_open(&loop), 0);
}

static void teardown(void)
{
	loop_close(loop);
}

static void say_letter(void *arg)
{
	say(*(const char *)arg);
}

static void say_and_stop(void *arg)
{
	say(*(const char *)arg);
	loop_stop(loop);
}

/* A pipe whose reading end is watched. */
struct tube {
	struct loop_watch watch;
	int to;
	uint32_t events;
	unsigned calls;
	struct tube *other;
};

static void open_tube(struct tube *tube, void (*fn)(void *, uint32_t))
{
	int fds[2];

	ck_assert_int_eq(pipe(fds), 0);
	*tube = (struct tube){ .watch = { .fd = fds[0], .fn = fn, .arg = tube },
			       .to = fds[1] };
}

static void close_tube(struct tube *tube)
{
	loop_unwatch(loop, &tube->watch);
	close(tube->watch.fd);
	close(tube->to);
}

static void stop_at_third(void *arg, uint32_t events)
{
	struct tube *tube = arg;

	tube->events = events;
	if (++tube->calls == 3)
		loop_stop(loop);
}

START_TEST(calls_while_the_descriptor_is_ready)
{
	struct tube tube;

	open_tube(&tube, stop_at_third);
	ck_assert_int_eq(loop_watch(loop, &tube.watch, EPOLLIN), 0);
	ck_assert_int_eq(write(tube.to, "x", 1), 1);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_uint_eq(tube.calls, 3);
	ck_assert_uint_eq(tube.events, EPOLLIN);
	close_tube(&tube);
}
END_TEST

START_TEST(watching_again_changes_the_events)
{
	struct loop_timer end = { .fn = say_and_stop, .arg = "t" };
	struct tube tube;

	open_tube(&tube, stop_at_third);
	ck_assert_int_eq(loop_watch(loop, &tube.watch, EPOLLIN), 0);
	ck_assert_int_eq(loop_watch(loop, &tube.watch, 0), 0);
	ck_assert_int_eq(write(tube.to, "x", 1), 1);
	loop_timer_set(loop, &end, 20 * MS);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_uint_eq(tube.calls, 0);

	/* a hang-up is told in any case */
	close(tube.to);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_uint_eq(tube.calls, 3);
	ck_assert_uint_eq(tube.events, EPOLLHUP);
	close_tube(&tube);
}
END_TEST

START_TEST(unwatching_is_harmless_and_watching_may_fail)
{
	struct tube tube;
	struct loop_watch none = { .fd = -1 };

	open_tube(&tube, stop_at_third);
	loop_unwatch(loop, &none);
	loop_unwatch(loop, &tube.watch);
	ck_assert_int_eq(loop_watch(loop, &none, EPOLLIN), -EBADF);
	ck_assert_int_eq(loop_watch(loop, &tube.watch, EPOLLIN), 0);
	close_tube(&tube);
}
END_TEST

static void free_both(void *arg, uint32_t events)
{
	struct tube *tube = arg;

	(void)events;
	say('f');
	close_tube(tube->other);
	free(tube->other);
	close_tube(tube);
	free(tube);
}

START_TEST(a_callback_may_free_every_watch)
{
	struct loop_timer end = { .fn = say_and_stop, .arg = "t" };
	struct tube *tubes[2];
	int i;

	for (i = 0; i < 2; i++) {
		tubes[i] = malloc(sizeof(*tubes[i]));
		ck_assert_ptr_nonnull(tubes[i]);
		open_tube(tubes[i], free_both);
		ck_assert_int_eq(loop_watch(loop, &tubes[i]->watch, EPOLLIN),
				 0);
		ck_assert_int_eq(write(tubes[i]->to, "x", 1), 1);
	}
	tubes[0]->other = tubes[1];
	tubes[1]->other = tubes[0];
	loop_timer_set(loop, &end, 20 * MS);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(said, "ft");
}
END_TEST

static void stop_when_both_had_turns(void *arg, uint32_t events)
{
	struct tube *tube = arg;

	(void)events;
	tube->calls++;
	if (tube->calls >= 5 && tube->other->calls >= 5)
		loop_stop(loop);
	ck_assert_uint_lt(tube->calls, 1000);
}

START_TEST(ready_descriptors_take_turns)
{
	struct tube tubes[2];
	int i;

	for (i = 0; i < 2; i++) {
		open_tube(&tubes[i], stop_when_both_had_turns);
		tubes[i].other = &tubes[!i];
		ck_assert_int_eq(loop_watch(loop, &tubes[i].watch, EPOLLIN), 0);
		ck_assert_int_eq(write(tubes[i].to, "x", 1), 1);
	}
	ck_assert_int_eq(loop_run(loop), 0);
	close_tube(&tubes[0]);
	close_tube(&tubes[1]);
}
END_TEST

START_TEST(timers_run_in_the_order_of_their_dates)
{
	struct loop_timer timers[4] = {
		{ .fn = say_letter, .arg = "a" },
		{ .fn = say_letter, .arg = "b" },
		{ .fn = say_letter, .arg = "c" },
		{ .fn = say_and_stop, .arg = "d" },
	};
	uint64_t start = clock_ns();

	loop_timer_set(loop, &timers[3], 15 * MS);
	loop_timer_set(loop, &timers[1], 10 * MS);
	loop_timer_set(loop, &timers[2], CLOCK_NEVER);
	loop_timer_set(loop, &timers[0], 1); /* replaced, not doubled */
	loop_timer_set(loop, &timers[2], 12 * MS);
	loop_timer_set(loop, &timers[0], 5 * MS);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(said, "abcd");
	ck_assert_uint_ge(clock_ns() - start, 15 * MS);
}
END_TEST

START_TEST(a_cleared_timer_does_not_run)
{
	struct loop_timer cleared = { .fn = say_letter, .arg = "c" };
	struct loop_timer never = { .fn = say_letter, .arg = "n" };
	struct loop_timer end = { .fn = say_and_stop, .arg = "e" };

	loop_timer_clear(loop, &cleared);
	loop_timer_set(loop, &cleared, 1 * MS);
	loop_timer_set(loop, &end, 5 * MS);
	loop_timer_set(loop, &never, CLOCK_NEVER);
	loop_timer_clear(loop, &cleared);
	loop_timer_clear(loop, &cleared);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(said, "e");
	loop_timer_clear(loop, &never);
}
END_TEST

static void free_arg(void *arg)
{
	say('f');
	free(arg);
}

static void clear_and_free(void *arg)
{
	say('x');
	loop_timer_clear(loop, arg);
	free(arg);
}

START_TEST(a_callback_may_free_every_timer)
{
	struct loop_timer *own = calloc(1, sizeof(*own));
	struct loop_timer *victim = calloc(1, sizeof(*victim));
	struct loop_timer killer = { .fn = clear_and_free, .arg = victim };
	struct loop_timer end = { .fn = say_and_stop, .arg = "e" };

	ck_assert_ptr_nonnull(own);
	ck_assert_ptr_nonnull(victim);
	*own = (struct loop_timer){ .fn = free_arg, .arg = own };
	*victim = (struct loop_timer){ .fn = free_arg, .arg = victim };
	loop_timer_set(loop, own, 0);
	loop_timer_set(loop, &killer, 0);
	loop_timer_set(loop, victim, 0);
	loop_timer_set(loop, &end, 2 * MS);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(said, "fxe");
}
END_TEST

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * CLOCK_SECOND + (uint64_t)ts.tv_nsec;
}

START_TEST(sleeps_until_a_timer_is_due)
{
	struct loop_timer end = { .fn = say_and_stop, .arg = "e" };
	uint64_t cpu = cpu_ns();
	int i;

	for (i = 0; i < 50; i++) {
		loop_timer_set(loop, &end, 3 * MS + 900000);
		ck_assert_int_eq(loop_run(loop), 0);
	}
	/* rounding downwards spins for 0.9 of 3.9 ms */
	ck_assert_uint_lt(cpu_ns() - cpu, 50 * MS / 2);
}
END_TEST

static void again(void *arg)
{
	struct loop_defer *defer = arg;

	loop_defer(loop, defer);
	if (strlen(said) < 3)
		say('a');
}

START_TEST(deferred_work_runs_once_and_in_order)
{
	struct loop_defer defers[4] = {
		{ .fn = say_letter, .arg = "a" },
		{ .fn = say_letter, .arg = "b" },
		{ .fn = say_letter, .arg = "c" },
		{ .fn = say_and_stop, .arg = "d" },
	};

	loop_defer(loop, &defers[0]);
	loop_defer(loop, &defers[1]);
	loop_defer(loop, &defers[0]);
	loop_defer(loop, &defers[2]);
	loop_defer(loop, &defers[3]);
	loop_defer_cancel(loop, &defers[1]);
	loop_defer_cancel(loop, &defers[1]);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(said, "acd");
}
END_TEST

START_TEST(deferring_again_starves_nobody)
{
	struct loop_defer busy = { .fn = again, .arg = &busy };
	struct loop_timer end = { .fn = say_and_stop, .arg = "e" };
	struct tube tube;

	open_tube(&tube, stop_at_third);
	ck_assert_int_eq(loop_watch(loop, &tube.watch, EPOLLIN), 0);
	ck_assert_int_eq(write(tube.to, "x", 1), 1);
	loop_defer(loop, &busy);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_uint_eq(tube.calls, 3);
	close_tube(&tube);

	loop_timer_set(loop, &end, 1 * MS);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(said, "aaae");
	loop_defer_cancel(loop, &busy);
}
END_TEST

static void cancel_and_free(void *arg)
{
	say('x');
	loop_defer_cancel(loop, arg);
	free(arg);
}

START_TEST(a_callback_may_free_every_deferred_work)
{
	struct loop_defer *own = calloc(1, sizeof(*own));
	struct loop_defer *victim = calloc(1, sizeof(*victim));
	struct loop_defer killer = { .fn = cancel_and_free, .arg = victim };
	struct loop_defer end = { .fn = say_and_stop, .arg = "e" };

	ck_assert_ptr_nonnull(own);
	ck_assert_ptr_nonnull(victim);
	*own = (struct loop_defer){ .fn = free_arg, .arg = own };
	*victim = (struct loop_defer){ .fn = free_arg, .arg = victim };
	loop_defer(loop, own);
	loop_defer(loop, &killer);
	loop_defer(loop, victim);
	loop_defer(loop, &end);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(said, "fxe");
}
END_TEST

static void defer_end(void *arg)
{
	loop_defer(loop, arg);
	say('t');
}

START_TEST(deferred_by_a_callback_runs_before_the_loop_sleeps)
{
	struct loop_defer end = { .fn = say_and_stop, .arg = "e" };
	struct loop_timer timer = { .fn = defer_end, .arg = &end };

	loop_timer_set(loop, &timer, 1 * MS);
	ck_assert_int_eq(loop_run(loop), 0); /* else it sleeps for ever */
	ck_assert_str_eq(said, "te");
}
END_TEST

START_TEST(stopping_calls_nothing_more)
{
	struct loop_defer stop = { .fn = say_and_stop, .arg = "s" };
	struct loop_defer late = { .fn = say_and_stop, .arg = "l" };
	struct loop_timer timer = { .fn = say_letter, .arg = "t" };

	loop_timer_set(loop, &timer, 0);
	loop_defer(loop, &stop);
	loop_defer(loop, &late);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(said, "s");
	/* what was left is there for the next run */
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(said, "sl");
	loop_timer_clear(loop, &timer);
}
END_TEST

static void on_signal(int number)
{
	(void)number;
}

START_TEST(signals_do_not_end_the_run)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct itimerval every = { .it_interval.tv_usec = 2000,
				   .it_value.tv_usec = 2000 };
	struct loop_timer end = { .fn = say_and_stop, .arg = "e" };

	ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &every, NULL), 0);
	loop_timer_set(loop, &end, 20 * MS);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(said, "e");
	every = (struct itimerval){ 0 };
	ck_assert_int_eq(setitimer(ITIMER_REAL, &every, NULL), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loop");
	TCase *tcase = tcase_create("loop");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 20);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, calls_while_the_descriptor_is_ready);
	tcase_add_test(tcase, watching_again_changes_the_events);
	tcase_add_test(tcase, unwatching_is_harmless_and_watching_may_fail);
	tcase_add_test(tcase, a_callback_may_free_every_watch);
	tcase_add_test(tcase, ready_descriptors_take_turns);
	tcase_add_test(tcase, timers_run_in_the_order_of_their_dates);
	tcase_add_test(tcase, a_cleared_timer_does_not_run);
	tcase_add_test(tcase, a_callback_may_free_every_timer);
	tcase_add_test(tcase, sleeps_until_a_timer_is_due);
	tcase_add_test(tcase, deferred_work_runs_once_and_in_order);
	tcase_add_test(tcase, deferring_again_starves_nobody);
	tcase_add_test(tcase, a_callback_may_free_every_deferred_work);
	tcase_add_test(tcase,
		       deferred_by_a_callback_runs_before_the_loop_sleeps);
	tcase_add_test(tcase, stopping_calls_nothing_more);
	tcase_add_test(tcase, signals_do_not_end_the_run);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
