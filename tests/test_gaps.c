/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recording waits: bins, what a wait is taken to have been, and traces that are
 * read while they are written.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "poll/gaps.h"

#define W0 UINT64_C(40000)

static struct gaps gaps;

static void setup(void)
{
	memset(&gaps, 0, sizeof(gaps));
}

static void teardown(void)
{
	free(gaps.trace);
}

/* ---- bins ---- */

START_TEST(bins_are_seamless_and_a_sixteenth_wide)
{
	uint64_t low = 0, edge;

	for (unsigned i = 0; i < GAPS_BINS; i++) {
		edge = gaps_edge_ns(i);
		ck_assert_uint_eq(gaps_bin_of(low), i);
		ck_assert_uint_eq(gaps_bin_of(edge), i);
		ck_assert_uint_le(edge - low, low < 1024 ? 64 : low / 16);
		low = edge + 1;
	}
	ck_assert_uint_eq(low - 1, POLICY_TIME_MAX_NS);
	ck_assert_uint_eq(gaps_bin_of(UINT64_MAX), GAPS_BINS - 1);
}
END_TEST

START_TEST(a_bin_knows_how_many_and_how_long)
{
	gaps_add(&gaps, WAIT_DEVICE, POLICY_READ, 5000);
	gaps_add(&gaps, WAIT_DEVICE, POLICY_READ, 5001);
	gaps_add(&gaps, WAIT_GUEST, POLICY_READ, UINT64_MAX);
	ck_assert_uint_eq(gaps.of[1].bins[gaps_bin_of(5000)].n, 2);
	ck_assert_uint_eq(gaps.of[1].bins[gaps_bin_of(5000)].ns, 10001);
	ck_assert_uint_eq(gaps.of[0].bins[GAPS_BINS - 1].ns,
			  POLICY_TIME_MAX_NS);
}
END_TEST

/* ---- what a wait was ---- */

static const struct wait_case {
	const char *why;
	struct gaps_wait wait;
	enum wait_kind next;
	int kind; /* where it is counted; -1: nowhere */
	uint64_t ns;
} waits[] = {
	{ "a hit is what it was",
	  { .kind = WAIT_GUEST, .start_ns = 1000, .end_ns = 8000 },
	  WAIT_GUEST,
	  0,
	  7000 },
	{ "a sleep has a wake in it",
	  { .kind = WAIT_GUEST,
	    .slept = true,
	    .start_ns = 1,
	    .end_ns = 100001 },
	  WAIT_GUEST,
	  0,
	  100000 - W0 },
	{ "and its delay",
	  { .kind = WAIT_GUEST,
	    .slept = true,
	    .start_ns = 1,
	    .end_ns = 100001,
	    .delay_ns = 10000 },
	  WAIT_GUEST,
	  0,
	  90000 - W0 },
	{ "it was longer than the spin before it",
	  { .kind = WAIT_GUEST,
	    .slept = true,
	    .start_ns = 1,
	    .end_ns = 60001,
	    .spun_ns = 50000 },
	  WAIT_GUEST,
	  0,
	  50001 },
	{ "and than nothing",
	  { .kind = WAIT_GUEST, .slept = true, .start_ns = 1, .end_ns = 2 },
	  WAIT_GUEST,
	  0,
	  1 },
	{ "an unknown delay is none",
	  { .kind = WAIT_DEVICE,
	    .slept = true,
	    .start_ns = 1,
	    .end_ns = 100001,
	    .delay_ns = POLICY_DELAY_UNKNOWN },
	  WAIT_GUEST,
	  1,
	  100000 - W0 },
	{ "a request that came first is no time of the device",
	  { .kind = WAIT_DEVICE, .start_ns = 1000, .end_ns = 8000 },
	  WAIT_BOTH,
	  2,
	  7000 },
	{ "nobody's wait is not counted",
	  { .kind = WAIT_NOBODY, .start_ns = 1000, .end_ns = 8000 },
	  WAIT_GUEST,
	  -1,
	  0 },
	{ "nor one without a start",
	  { .kind = WAIT_GUEST, .end_ns = 8000 },
	  WAIT_GUEST,
	  -1,
	  0 },
	{ "nor one without an end",
	  { .kind = WAIT_GUEST, .start_ns = 8000 },
	  WAIT_GUEST,
	  -1,
	  0 },
};

START_TEST(a_wait_is_counted_for_what_it_was)
{
	const struct wait_case *c = &waits[_i];
	struct gaps_wait wait = c->wait;
	uint64_t n = 0;

	gaps_begin(&gaps, &wait, c->next, POLICY_WRITE, W0);
	ck_assert_int_eq(wait.kind, c->next);
	ck_assert_int_eq(wait.op, POLICY_WRITE);
	ck_assert_uint_eq(wait.start_ns, 0);
	for (unsigned k = 0; k < GAPS_KINDS; k++)
		for (unsigned i = 0; i < GAPS_BINS; i++)
			n += gaps.of[k].bins[i].n;
	ck_assert_uint_eq(n, c->kind >= 0);
	if (c->kind >= 0)
		ck_assert_msg(gaps.of[c->kind].bins[gaps_bin_of(c->ns)].ns ==
				      c->ns,
			      "%s", c->why);
}
END_TEST

START_TEST(a_quick_wait_is_counted_once_and_goes_on_if_it_was_timed)
{
	struct gaps_wait wait = { .kind = WAIT_GUEST };

	gaps_quick(&gaps, &wait, 150);
	gaps_start(&wait, 1000);
	wait.end_ns = 9000;
	gaps_begin(&gaps, &wait, WAIT_GUEST, POLICY_READ, W0);
	ck_assert_uint_eq(gaps.of[0].bins[gaps_bin_of(150)].n, 1);
	ck_assert_uint_eq(gaps.of[0].bins[gaps_bin_of(8000)].n, 0);
	gaps_start(&wait, 1000);
	gaps_start(&wait, 5000); /* the first counts */
	gaps_quick(&gaps, &wait, 150);
	wait.end_ns = 9000;
	gaps_begin(&gaps, &wait, WAIT_GUEST, POLICY_READ, W0);
	ck_assert_uint_eq(gaps.of[0].bins[gaps_bin_of(150)].n, 1);
	ck_assert_uint_eq(gaps.of[0].bins[gaps_bin_of(8000)].n, 1);
	/* found while arming: at once, or as long as it was spun before */
	gaps_found(&gaps, &wait);
	ck_assert_uint_eq(gaps.of[0].bins[0].n, 1);
	gaps_begin(NULL, &wait, WAIT_GUEST, POLICY_READ, W0);
	gaps_quick(NULL, &wait, 150);
}
END_TEST

/* ---- traces ---- */

static struct gaps_entry got[GAPS_TRACE_SIZE];

START_TEST(a_trace_says_what_when_and_after_which_operation)
{
	uint64_t cursor = 70, lost;

	gaps.trace = gaps_trace_new(70);
	gaps_add(&gaps, WAIT_GUEST, POLICY_FLUSH, 12345);
	gaps_add(&gaps, WAIT_BOTH, POLICY_WRITE, POLICY_TIME_MAX_NS);
	ck_assert_uint_eq(gaps_trace_read(gaps.trace, &cursor, got, 1, &lost),
			  1);
	ck_assert_uint_eq(cursor, 71);
	ck_assert_uint_eq(got[0].ns, 12345);
	ck_assert_int_eq(got[0].kind, WAIT_GUEST);
	ck_assert_int_eq(got[0].op, POLICY_FLUSH);
	ck_assert_uint_eq(gaps_trace_read(gaps.trace, &cursor, got, 10, &lost),
			  1);
	ck_assert_uint_eq(got[0].ns, POLICY_TIME_MAX_NS);
	ck_assert_int_eq(got[0].kind, WAIT_BOTH);
	ck_assert_uint_eq(lost, 0);
	ck_assert_uint_eq(gaps_trace_read(gaps.trace, &cursor, got, 10, &lost),
			  0);
	/* one that was never given: from now on */
	cursor = 1000;
	ck_assert_uint_eq(gaps_trace_read(gaps.trace, &cursor, got, 10, &lost),
			  0);
	ck_assert_uint_eq(cursor, 72);
}
END_TEST

START_TEST(what_was_overwritten_is_counted)
{
	uint64_t cursor = 0, lost;
	size_t n;

	gaps.trace = gaps_trace_new(0);
	for (uint64_t i = 0; i < GAPS_TRACE_SIZE + 1000; i++)
		gaps_add(&gaps, WAIT_GUEST, POLICY_READ, i);
	n = gaps_trace_read(gaps.trace, &cursor, got, GAPS_TRACE_SIZE, &lost);
	/* the oldest is where the next one goes */
	ck_assert_uint_eq(lost, 1001);
	ck_assert_uint_eq(n, GAPS_TRACE_SIZE - 1);
	ck_assert_uint_eq(got[0].ns, 1001);
	ck_assert_uint_eq(got[n - 1].ns, GAPS_TRACE_SIZE + 999);
}
END_TEST

#define RACE (GAPS_TRACE_SIZE * UINT64_C(40))

static void *write_all(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < RACE; i++)
		gaps_add(&gaps, WAIT_GUEST, POLICY_READ, i);
	return NULL;
}

START_TEST(a_reader_beside_the_writer_sees_each_once_in_order_or_counts_it)
{
	uint64_t cursor = 0, next = 0, lost;
	pthread_t thread;
	size_t n;

	gaps.trace = gaps_trace_new(0);
	pthread_create(&thread, NULL, write_all, NULL);
	while (next < RACE) {
		n = gaps_trace_read(gaps.trace, &cursor, got, GAPS_TRACE_SIZE,
				    &lost);
		next += lost;
		for (size_t i = 0; i < n; i++, next++)
			ck_assert_uint_eq(got[i].ns, next);
		ck_assert_uint_eq(cursor, next);
	}
	pthread_join(thread, NULL);
	ck_assert_uint_eq(next, RACE);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gaps");
	TCase *tests = tcase_create("gaps");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, bins_are_seamless_and_a_sixteenth_wide);
	tcase_add_test(tests, a_bin_knows_how_many_and_how_long);
	tcase_add_loop_test(tests, a_wait_is_counted_for_what_it_was, 0,
			    sizeof(waits) / sizeof(waits[0]));
	tcase_add_test(
		tests,
		a_quick_wait_is_counted_once_and_goes_on_if_it_was_timed);
	tcase_add_test(tests, a_trace_says_what_when_and_after_which_operation);
	tcase_add_test(tests, what_was_overwritten_is_counted);
	tcase_add_test(
		tests,
		a_reader_beside_the_writer_sees_each_once_in_order_or_counts_it);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
