/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No wake-up is lost, end to end: a frontend that strictly obeys req_event
 * sends requests just when the backend's window closes, over and over.  A
 * request that falls between the last look and the sleep would stay on the
 * ring for ever.  The interleavings themselves are in test_lost_wakeup.c.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include "poll/clock.h"
#include "poll/relax.h"
#include "tests/scratch.h"
#include "tests/stand.h"

enum { OPERATIONS = 25000 }; /* for each window, times SCALE */

static unsigned operations(void)
{
	const char *scale = getenv("SCALE");

	return (unsigned)(OPERATIONS * (scale ? atof(scale) : 1));
}

/* 0 to 4095; the same in every run. */
static uint32_t jitter(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 20;
}

static void pass_time(uint64_t ns)
{
	uint64_t end = clock_ns() + ns;

	while (clock_ns() < end)
		relax();
}

START_TEST(no_request_is_left_behind_when_a_window_closes)
{
	static const uint32_t windows_us[] = { 20, 50, 100, 200 };
	struct vbd_polling polling = {
		.mode = WAIT_FIXED,
		.duration_us = windows_us[_i],
		.has_cap = true, /* 0: none */
	};
	struct vbd_polling_report report;
	struct frontend_request r;
	struct frontend_response rsp;
	unsigned n = operations();
	uint32_t state = 1;
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(vbd_set_polling(stand.vbd, VBD_FROM_TAP_CTL, &polling),
			 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	frontend_fill(&r, BLKIF_OP_READ, 0, 512);
	for (unsigned i = 0; i < n; i++) {
		/*
		 * Every other request comes early: a frontend that had to
		 * send an event sees the answer late, so the gap after it is
		 * no measure of the window.  The others come around its end.
		 */
		unsigned percent = i & 1 ? 85 + jitter(&state) % 30 : 10;
		uint64_t gap = windows_us[_i] * UINT64_C(10) * percent;

		if (i % 500 < 2) /* where the governor lives */
			stand_run(&stand, 1);
		pass_time(gap);
		ck_assert_int_ge(frontend_queue(stand.f, &r), 0);
		frontend_push(stand.f);
		ck_assert_msg(frontend_wait(stand.f, CLOCK_SECOND, &rsp) == 1,
			      "request %u stalled, window %u us", i,
			      windows_us[_i]);
	}
	vbd_polling_report(stand.vbd, &report);
	printf("window %u us: %llu hits, %llu misses, %llu sleeps, %llu "
	       "events\n",
	       windows_us[_i], (unsigned long long)report.waits.hits,
	       (unsigned long long)report.waits.misses,
	       (unsigned long long)report.waits.sleeps,
	       (unsigned long long)report.guest_events);
	/* both ways out were taken, or this showed nothing */
	ck_assert_uint_gt(report.waits.hits, 0);
	ck_assert_uint_gt(report.waits.sleeps, 0);
	stand_close(&stand);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("wakeup");
	TCase *t = tcase_create("wakeup");
	SRunner *runner;
	int failed;

	tcase_set_timeout(t, 3600);
	tcase_add_loop_test(t, no_request_is_left_behind_when_a_window_closes,
			    0, 4);
	suite_add_tcase(s, t);
	scratch_open();
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
