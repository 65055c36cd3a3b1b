/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A wait whose thread sleeps elsewhere: its descriptor is readable exactly
 * when there is something to do.
 */
#include <check.h>
#include "tests/teller.h"

#define MS UINT64_C(1000000)

static void setup(void)
{
	tellers_open(true);
}

START_TEST(an_event_makes_its_descriptor_readable)
{
	ck_assert(!wait_arm(&waiter));
	assert_said("aa ab ac ");
	ck_assert(!epoll_ready(0));
	teller_ring(b.fd);
	ck_assert(epoll_ready(0));
	wait_awake(&waiter);
	assert_said("wb da db dc ");
	ck_assert(!epoll_ready(0));
}
END_TEST

START_TEST(work_prevents_the_sleep)
{
	b.busy = true;
	ck_assert(wait_arm(&waiter));
	assert_said("aa ab da db ");
}
END_TEST

START_TEST(a_date_makes_its_descriptor_readable)
{
	static const uint64_t dates[] = { 20 * MS, 0 };

	for (unsigned i = 0; i < 2; i++) {
		b.source.due_ns = clock_ns() + dates[i];
		ck_assert(!wait_arm(&waiter));
		if (dates[i])
			ck_assert(!epoll_ready(0));
		ck_assert(epoll_ready(10000));
		ck_assert_uint_ge(clock_ns(), b.source.due_ns);
		wait_awake(&waiter);
		assert_said("aa ab ac da db dc ");
		ck_assert(!epoll_ready(0));
	}
	b.source.due_ns = 0;
	ck_assert(wait_arm(&waiter) || epoll_ready(10000));
}
END_TEST

START_TEST(a_date_that_is_no_more_wakes_nobody)
{
	b.source.due_ns = clock_ns() + 20 * MS;
	ck_assert(!wait_arm(&waiter));
	wait_awake(&waiter);
	b.source.due_ns = CLOCK_NEVER;
	ck_assert(!wait_arm(&waiter));
	ck_assert(!epoll_ready(60));
}
END_TEST

START_TEST(without_dates_makes_no_clock)
{
	ck_assert(!wait_arm(&waiter));
	wait_awake(&waiter);
	ck_assert_int_eq(waiter.timer_fd, -1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("wait_foreign");
	TCase *tcase = tcase_create("wait_foreign");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 30);
	tcase_add_checked_fixture(tcase, setup, tellers_close);
	tcase_add_test(tcase, an_event_makes_its_descriptor_readable);
	tcase_add_test(tcase, work_prevents_the_sleep);
	tcase_add_test(tcase, a_date_makes_its_descriptor_readable);
	tcase_add_test(tcase, a_date_that_is_no_more_wakes_nobody);
	tcase_add_test(tcase, without_dates_makes_no_clock);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
