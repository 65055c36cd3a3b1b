/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The granularity of kernels that we do not run, and the arithmetic of
 * aligned durations.
 */
#include "poll/granularity.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define TICK "clock_getres(CLOCK_MONOTONIC_COARSE)"
#define MS 1000000

static const struct {
	const char *why;
	uint64_t tick_ns, sched_ns;
	uint32_t us;
	const char *source;
} kernels[] = {
	{ "HZ=250, no file", 4 * MS, 0, 4000, TICK },
	{ "HZ=1000, no file", 1 * MS, 0, 1000, TICK },
	{ "HZ=100, no file", 10 * MS, 0, 10000, TICK },
	{ "HZ=300 is no whole number of us", 3333333, 0, 3334, TICK },
	{ "less than a tick acts at the tick", 4 * MS, 2800000, 4000, TICK },
	{ "exactly a tick", 4 * MS, 4 * MS, 4000, TICK },
	{ "more than a tick acts at the second", 4 * MS, 4 * MS + 1, 8000,
	  "file" },
	{ "HZ=1000, several ticks", 1 * MS, 2800000, 3000, "file" },
	{ "no tick known", 0, 2800000, 2800, "file" },
	{ "nothing known", 0, 0, 4000, "default" },
	{ "never below 1 ms", 100, 0, 1000, TICK },
	{ "never above 10 ms", 4 * MS, 25 * MS, 10000, "file" },
	{ "no tick of a minute", UINT64_C(60000) * MS, 0, 4000, "default" },
	{ "no slice of ages", 4 * MS, UINT64_MAX, 4000, TICK },
};

START_TEST(follows_tick_and_scheduler)
{
	struct granularity g;

	granularity_from(kernels[_i].tick_ns, kernels[_i].sched_ns, "file", &g);
	ck_assert_msg(g.us == kernels[_i].us, "%s: %u", kernels[_i].why, g.us);
	ck_assert_msg(!strcmp(g.source, kernels[_i].source), "%s: %s",
		      kernels[_i].why, g.source);
}
END_TEST

START_TEST(reads_the_running_kernel)
{
	struct granularity g;

	memset(&g, 0xff, sizeof(g));
	granularity_read(&g);
	ck_assert_uint_ge(g.us, 1000);
	ck_assert_uint_le(g.us, 10000);
	ck_assert_ptr_nonnull(memchr(g.source, '\0', sizeof(g.source)));
	ck_assert_msg(g.source[0] == '/' || !strcmp(g.source, TICK), "%s",
		      g.source);
}
END_TEST

static const struct {
	uint32_t us, granule_us, want;
} durations[] = {
	{ 0, 4000, 0 },
	{ 1, 4000, 4000 },
	{ 1000, 4000, 4000 },
	{ 4000, 4000, 4000 },
	{ 4001, 4000, 8000 },
	{ 6000, 4000, 8000 },
	{ 8000, 4000, 8000 },
	{ 59999999, 4000, 60000000 },
	{ 60000000, 4000, 60000000 },
	{ 60000001, 4000, 60000000 },
	{ UINT32_MAX, 4000, 60000000 },
	{ UINT32_MAX, 1, 60000000 },
	{ 60000000, 7000, 59997000 },
	{ 59997001, 7000, 59997000 },
	{ 3334, 3334, 3334 },
	{ 3335, 3334, 6668 },
};

START_TEST(aligns_durations)
{
	ck_assert_uint_eq(granularity_align(durations[_i].us,
					    durations[_i].granule_us),
			  durations[_i].want);
}
END_TEST

START_TEST(aligning_is_monotone_idempotent_and_whole)
{
	static const uint32_t granules[] = { 1,	   1000, 2800, 3334,
					     4000, 7001, 10000 };
	uint32_t granule = granules[_i], last = 0, aligned;
	uint64_t us;

	for (us = 0; us <= UINT32_MAX; us += 1 + us / 200 + us % 7) {
		aligned = granularity_align((uint32_t)us, granule);
		ck_assert_uint_ge(aligned, last);
		ck_assert_uint_le(aligned, GRANULARITY_WINDOW_MAX_US);
		ck_assert_uint_eq(aligned % granule, 0);
		ck_assert_uint_eq(granularity_align(aligned, granule), aligned);
		if (us + granule <= GRANULARITY_WINDOW_MAX_US) {
			ck_assert_uint_ge(aligned, us);
			ck_assert_uint_lt(aligned, us + granule);
		}
		last = aligned;
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("granularity");
	TCase *tcase = tcase_create("granularity");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tcase, follows_tick_and_scheduler, 0,
			    sizeof(kernels) / sizeof(*kernels));
	tcase_add_test(tcase, reads_the_running_kernel);
	tcase_add_loop_test(tcase, aligns_durations, 0,
			    sizeof(durations) / sizeof(*durations));
	tcase_add_loop_test(tcase, aligning_is_monotone_idempotent_and_whole, 0,
			    7);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
