/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a vbd remembers of its waits, tells of them while they happen, and what
 * "poll now", cap and sync do to its rings.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>
#include <xen/io/blkif.h>
#include "poll/clock.h"
#include "ring/vbd_private.h"
#include "tests/scratch.h"
#include "tests/stand.h"

enum { ROUND = 200 };

static void serve(struct stand *stand, unsigned n)
{
	uint8_t data[512];

	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(stand_io(stand, BLKIF_OP_READ, 0, sizeof(data),
					  data),
				 0);
}

static uint64_t recorded(const struct stand *stand, uint64_t *ns)
{
	struct gaps_histogram gaps[GAPS_KINDS];
	uint64_t n = 0;

	memset(gaps, 0, sizeof(gaps));
	vbd_gaps(stand->vbd, gaps);
	*ns = 0;
	for (unsigned k = 0; k < GAPS_KINDS; k++)
		for (unsigned i = 0; i < GAPS_BINS; i++) {
			n += gaps[k].bins[i].n;
			*ns += gaps[k].bins[i].ns;
		}
	return n;
}

static void open_with(struct stand *stand, const struct vbd_polling *polling)
{
	stand_open(stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(vbd_set_polling(stand->vbd, VBD_FROM_TAP_CTL, polling),
			 0);
	ck_assert_int_eq(stand_connect(stand), 0);
}

static const struct vbd_polling modes[] = {
	{ .mode = WAIT_EVENT },
	{ .mode = WAIT_FIXED, .duration_us = 200 },
	{ .mode = WAIT_FIXED, .duration_us = 1000000 },
	{ .mode = WAIT_ADAPTIVE, .duration_us = 8000 },
};

START_TEST(every_mode_records_its_waits_and_they_outlive_the_ring)
{
	uint64_t before, after, ns_before, ns_after, start;
	struct vbd_polling_report report;
	struct stand stand;

	open_with(&stand, &modes[_i]);
	serve(&stand, 10);
	before = recorded(&stand, &ns_before);
	start = clock_ns();
	serve(&stand, ROUND);
	after = recorded(&stand, &ns_after);
	/* one wait a request, but for turns that take or answer two */
	ck_assert_uint_ge(after - before, ROUND * 3 / 4);
	ck_assert_uint_le(ns_after - ns_before,
			  clock_ns() - start + STAND_SECOND / 100);
	vbd_polling_report(stand.vbd, &report);
	ck_assert_uint_ge(report.gaps[0] + report.gaps[1] + report.gaps[2],
			  after);
	ck_assert_int_eq(stand_disconnect(&stand), 0);
	stand_run(&stand, 200);
	ck_assert_ptr_eq(stand.vbd->rings, NULL);
	ck_assert_uint_ge(recorded(&stand, &ns_after), after);
	stand_close(&stand);
}
END_TEST

START_TEST(a_pause_of_the_guest_is_one_wait_of_its_length)
{
	struct gaps_entry entries[100];
	uint64_t cursor = VBD_TRACE_NOW, lost;
	struct stand stand;
	bool seen = false;
	int n;

	open_with(&stand, &modes[_i]);
	ck_assert_int_eq(vbd_trace(stand.vbd, &cursor, entries, 100, &lost), 0);
	stand_run(&stand, 20); /* until the thread has it */
	serve(&stand, 1);
	stand_run(&stand, 50);
	serve(&stand, 2);
	n = vbd_trace(stand.vbd, &cursor, entries, 100, &lost);
	ck_assert_int_ge(n, 1);
	ck_assert_uint_eq(lost, 0);
	for (int i = 0; i < n; i++)
		if (entries[i].kind == WAIT_GUEST &&
		    entries[i].op == POLICY_READ &&
		    entries[i].ns >= STAND_SECOND / 1000 * 45)
			seen = true;
	ck_assert(seen);
	stand_close(&stand);
}
END_TEST

START_TEST(a_trace_goes_on_over_a_reconnect_and_ends_when_nobody_asks)
{
	struct gaps_entry entries[MAIN_PORT_DEPTH * 100];
	uint64_t cursor = VBD_TRACE_NOW, lost;
	unsigned size = sizeof(entries) / sizeof(entries[0]);
	struct stand stand;

	open_with(&stand, &modes[0]);
	ck_assert_int_eq(vbd_trace(stand.vbd, &cursor, entries, size, &lost),
			 0);
	stand_run(&stand, 20);
	serve(&stand, 50);
	ck_assert_int_ge(vbd_trace(stand.vbd, &cursor, entries, size, &lost),
			 30);
	ck_assert_int_eq(stand_disconnect(&stand), 0);
	stand_run(&stand, 100);
	ck_assert_int_eq(vbd_trace(stand.vbd, &cursor, entries, size, &lost),
			 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	vbd_trace(stand.vbd, &cursor, entries, size, &lost);
	ck_assert_uint_ge(cursor, 30); /* numbers go on */
	stand_run(&stand, 20);
	serve(&stand, 50);
	ck_assert_int_ge(vbd_trace(stand.vbd, &cursor, entries, size, &lost),
			 30);
	ck_assert_uint_eq(lost, 0);
	ck_assert_ptr_ne(stand.vbd->rings->trace, NULL);
	vbd_trace_end(stand.vbd); /* what its timer does */
	stand_run(&stand, 50);
	ck_assert_ptr_eq(stand.vbd->rings->trace, NULL);
	ck_assert_ptr_eq(stand.vbd->rings->queue->gaps.trace, NULL);
	/* and can be taken up again */
	vbd_trace(stand.vbd, &cursor, entries, size, &lost);
	vbd_trace_end(stand.vbd);
	vbd_trace(stand.vbd, &cursor, entries, size, &lost);
	stand_run(&stand, 50);
	serve(&stand, 50);
	ck_assert_int_ge(vbd_trace(stand.vbd, &cursor, entries, size, &lost),
			 30);
	/* a ring that goes while it is traced takes the memory along */
	stand_close(&stand);
}
END_TEST

START_TEST(a_trace_asked_for_while_its_ring_goes_harms_nobody)
{
	struct gaps_entry entries[16];
	uint64_t cursor = VBD_TRACE_NOW, lost;
	struct stand_reply reply;
	struct stand stand;

	open_with(&stand, &modes[0]);
	vbd_trace(stand.vbd, &cursor, entries, 16, &lost);
	stand_run(&stand, 20);
	stand_reply_init(&stand, &reply);
	vbd_disconnect(stand.vbd, STAND_DOMID, STAND_DEVID, &reply.reply);
	usleep(50000); /* the thread has ended, and main has not heard of it */
	vbd_trace(stand.vbd, &cursor, entries, 16, &lost);
	vbd_trace_end(stand.vbd);
	ck_assert_int_eq(stand_await(&stand, &reply), 0);
	stand_run(&stand, 50);
	stand_close(&stand);
}
END_TEST

START_TEST(poll_now_spins_for_one_window_in_event_mode_too)
{
	struct vbd_polling_report before, after = { 0 };
	uint64_t longest = 0;
	struct stand stand;

	open_with(&stand, &modes[0]);
	serve(&stand, 1);
	/* whoever else wants the CPU ends spins: one good window will do */
	for (unsigned i = 0; i < 100 && longest < 1000000; i++) {
		vbd_polling_report(stand.vbd, &before);
		vbd_poll_now(stand.vbd);
		vbd_poll_now(stand.vbd); /* twice is once, or once more */
		stand_run(&stand, 60);
		vbd_polling_report(stand.vbd, &after);
		after.waits.spin_ns -= before.waits.spin_ns;
		if (after.waits.spin_ns > longest)
			longest = after.waits.spin_ns;
	}
	ck_assert_uint_ge(longest, 1000000);
	ck_assert_uint_le(longest,
			  5 * UINT64_C(1000) * before.granularity.us * 2);
	/* and it is asleep again */
	vbd_polling_report(stand.vbd, &before);
	stand_run(&stand, 60);
	vbd_polling_report(stand.vbd, &after);
	ck_assert_uint_eq(after.waits.spin_ns, before.waits.spin_ns);
	serve(&stand, 10);
	stand_close(&stand);
}
END_TEST

START_TEST(cap_and_sync_arrive_where_they_act)
{
	struct vbd_polling polling = { .mode = WAIT_EVENT };
	struct vbd_polling_report report;
	struct stand stand;

	open_with(&stand, &polling);
	vbd_polling_report(stand.vbd, &report);
	ck_assert_uint_eq(vbd_polling_cap(&report.polling), VBD_CAP_DEFAULT);
	ck_assert_int_eq(stand.vbd->rings->queue->sync.mode, SYNC_AUTO);
	polling.has_cap = true;
	polling.cap = VBD_CAP_MAX + 1;
	ck_assert_int_eq(vbd_set_polling(stand.vbd, VBD_FROM_TAP_CTL, &polling),
			 -EINVAL);
	polling.cap = 0;
	polling.sync = SYNC_OFF;
	ck_assert_int_eq(vbd_set_polling(stand.vbd, VBD_FROM_TAP_CTL, &polling),
			 0);
	stand_run(&stand, 50);
	vbd_polling_report(stand.vbd, &report);
	ck_assert_uint_eq(vbd_polling_cap(&report.polling), 0);
	ck_assert_uint_eq(report.governor.share, UINT32_MAX);
	ck_assert_int_eq(stand.vbd->rings->queue->sync.mode, SYNC_OFF);
	/* also of a ring that comes later */
	ck_assert_int_eq(stand_disconnect(&stand), 0);
	stand_run(&stand, 100);
	ck_assert_int_eq(stand_connect(&stand), 0);
	ck_assert_int_eq(stand.vbd->rings->queue->sync.mode, SYNC_OFF);
	stand_close(&stand);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("vbd_gaps");
	TCase *tests = tcase_create("vbd_gaps");
	SRunner *runner;
	int failed;

	scratch_open();
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(
		tests, every_mode_records_its_waits_and_they_outlive_the_ring,
		0, sizeof(modes) / sizeof(modes[0]));
	tcase_add_loop_test(tests,
			    a_pause_of_the_guest_is_one_wait_of_its_length, 0,
			    sizeof(modes) / sizeof(modes[0]));
	tcase_add_test(
		tests,
		a_trace_goes_on_over_a_reconnect_and_ends_when_nobody_asks);
	tcase_add_test(tests,
		       a_trace_asked_for_while_its_ring_goes_harms_nobody);
	tcase_add_test(tests, poll_now_spins_for_one_window_in_event_mode_too);
	tcase_add_test(tests, cap_and_sync_arrive_where_they_act);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
