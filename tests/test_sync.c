/* SPDX-License-Identifier: BSD-3-Clause */
/* When a lone request is done at once, and when it is submitted. */
#include <check.h>
#include <stdlib.h>
#include "poll/sync.h"

/* @n requests on a medium whose calls take @ns; how many were done at once. */
static unsigned run(struct sync *sync, enum policy_op op, bool spins,
		    uint64_t ns, unsigned n, bool filled)
{
	unsigned now = 0;

	for (unsigned i = 0; i < n; i++) {
		enum sync_way way = sync_choose(sync, op, spins);

		if (way == SYNC_LATER)
			continue;
		now++;
		if (way == SYNC_TIMED)
			sync_took(sync, op, ns);
		sync_returned(sync, filled);
	}
	return now;
}

START_TEST(calls_that_do_not_sleep_are_always_made_at_once)
{
	struct sync sync = { 0 };

	ck_assert_uint_eq(run(&sync, (enum policy_op)(_i / 2), _i & 1, 900,
			      10000, false),
			  10000);
}
END_TEST

START_TEST(media_that_sleep_are_waited_for_by_who_spins)
{
	struct sync sync = { 0 };

	run(&sync, POLICY_READ, true, 60000, 100, false);
	/* but for a try now and then, should it have become fast */
	ck_assert_uint_le(run(&sync, POLICY_READ, true, 60000, 10240, false),
			  10);
	ck_assert_uint_eq(run(&sync, POLICY_READ, false, 60000, 1000, false),
			  1000);
	/* so long that it would be blind to the ring for too long */
	run(&sync, POLICY_WRITE, false, 50000000, 100, false);
	ck_assert_uint_le(
		run(&sync, POLICY_WRITE, false, 50000000, 10240, false), 10);
}
END_TEST

START_TEST(a_medium_that_becomes_fast_is_noticed_and_back)
{
	struct sync sync = { 0 };

	run(&sync, POLICY_READ, true, 60000, 1000, false);
	run(&sync, POLICY_READ, true, 900, 40 * 1024, false);
	ck_assert_uint_eq(run(&sync, POLICY_READ, true, 900, 1000, false),
			  1000);
	run(&sync, POLICY_READ, true, 60000, 2000, false);
	ck_assert_uint_le(run(&sync, POLICY_READ, true, 60000, 1000, false), 1);
}
END_TEST

START_TEST(one_lost_cpu_is_no_other_medium)
{
	struct sync sync = { 0 };

	run(&sync, POLICY_READ, true, 900, 1000, false);
	sync_took(&sync, POLICY_READ, 4000000);
	ck_assert_int_ne(sync_choose(&sync, POLICY_READ, true), SYNC_LATER);
}
END_TEST

START_TEST(a_ring_that_fills_meanwhile_stops_it_for_a_while)
{
	struct sync sync = { 0 };

	/* one of sixteen is where it stops */
	ck_assert_uint_lt(run(&sync, POLICY_READ, true, 900, 1000, true), 50);
	ck_assert_uint_gt(run(&sync, POLICY_READ, true, 900, 1000, false), 700);
}
END_TEST

START_TEST(off_is_off)
{
	struct sync sync = { .mode = SYNC_OFF };

	ck_assert_uint_eq(run(&sync, POLICY_FLUSH, false, 900, 100, false), 0);
}
END_TEST

START_TEST(on_is_on_whatever_it_costs)
{
	struct sync sync = { .mode = SYNC_ON };

	ck_assert_uint_eq(run(&sync, POLICY_WRITE, true, 50000000, 1000, true),
			  1000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sync");
	TCase *t = tcase_create("sync");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(t, calls_that_do_not_sleep_are_always_made_at_once,
			    0, 6);
	tcase_add_test(t, media_that_sleep_are_waited_for_by_who_spins);
	tcase_add_test(t, a_medium_that_becomes_fast_is_noticed_and_back);
	tcase_add_test(t, one_lost_cpu_is_no_other_medium);
	tcase_add_test(t, a_ring_that_fills_meanwhile_stops_it_for_a_while);
	tcase_add_test(t, off_is_off);
	tcase_add_test(t, on_is_on_whatever_it_costs);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
