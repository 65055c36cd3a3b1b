/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tapback when others go wrong or away: tapdisks that hang and die, a xenstore
 * that is contended, tapback itself.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/backrig.h"
#include "tests/scratch.h"

#define D 5 /* the domain */
#define NEIGHBOUR 6
#define COUNT(table) ((int)(sizeof(table) / sizeof(table[0])))

static struct backrig rig;

static void setup(void)
{
	backrig_open(&rig);
}

static void teardown(void)
{
	backrig_close(&rig);
}

static struct device *device(void)
{
	return devices_find(rig.devices, D, BACKRIG_DEVID);
}

static void assert_error(const char *want)
{
	const char *node = xenstore_peek(rig.xs, BACKRIG_ERROR, D);

	ck_assert_msg(node && !strcmp(node, want), "error node \"%s\", not %s",
		      node ? node : "(not there)", want);
}

/* --- tapdisks */

static bool is_told(struct backrig *r)
{
	return xenstore_peek(r->xs, BACKRIG_ERROR, D);
}

/* Field: B07 */
START_TEST(nobody_waits_for_a_tapdisk_that_hangs)
{
	rig.env.timeout_ms = 2000;
	rig.tap[0].silent = true;
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_run_ms(&rig, 20);
	backrig_plug(&rig, NEIGHBOUR);
	backrig_name(&rig, NEIGHBOUR, 1);
	backrig_write_ring(&rig, NEIGHBOUR);
	backrig_put_front(&rig, NEIGHBOUR, "state", "4");
	backrig_await(&rig, NEIGHBOUR, 4);
	/* all that in the time of one call */
	ck_assert_int_ne(device()->tap.call, TAP_NONE);
	ck_assert_ptr_null(xenstore_peek(rig.xs, BACKRIG_ERROR, D));
	backrig_run(&rig, is_told);
	ck_assert_int_eq(backrig_state(&rig, D), 1);
	assert_error("110 tapdisk 1000001: disconnect");
	rig.tap[0].silent = false;
	backrig_await(&rig, D, 2);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
}
END_TEST

/* It did what it was asked to, and nobody heard. */
START_TEST(a_lost_answer_to_connect_does_no_harm)
{
	rig.env.timeout_ms = 200;
	rig.tap[0].mute = WIRE_CONNECT;
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "4");
	backrig_run_ms(&rig, 250);
	ck_assert(rig.tap[0].served);
	ck_assert_int_ne(backrig_state(&rig, D), 4);
	rig.tap[0].mute = 0;
	if (_i) /* meanwhile the guest has another ring */
		backrig_put_front(&rig, D, "ring-ref", "77");
	backrig_await(&rig, D, 4);
	ck_assert_uint_eq(rig.tap[0].refs[0], _i ? 77 : 8);
}
END_TEST

START_TEST(a_guest_has_its_pages_back_when_they_are_free)
{
	rig.env.timeout_ms = 200;
	backrig_connect(&rig, D, 0);
	rig.tap[0].silent = true;
	backrig_put_front(&rig, D, "state", "6");
	backrig_run_ms(&rig, 500);
	ck_assert_int_eq(backrig_state(&rig, D), 4);
	rig.tap[0].silent = false;
	backrig_await(&rig, D, 6);
	ck_assert(!rig.tap[0].served);
}
END_TEST

START_TEST(a_device_that_is_removed_waits_for_no_tapdisk)
{
	rig.env.timeout_ms = 200;
	backrig_connect(&rig, D, 0);
	rig.tap[0].silent = true;
	backrig_unplug(&rig, D);
	backrig_run_ms(&rig, 400);
	ck_assert_ptr_null(device());
	ck_assert_ptr_null(xenstore_peek(rig.xs, BACKRIG_ERROR, D));
}
END_TEST

START_TEST(a_dead_tapdisk_closes_the_device_and_can_be_replaced)
{
	backrig_connect(&rig, D, 0);
	faketap_kill(&rig.tap[0]);
	backrig_await(&rig, D, 5);
	assert_error("111 tapdisk 1000001: what it can");
	backrig_put_front(&rig, D, "state", "5");
	backrig_put_front(&rig, D, "state", "6");
	backrig_await(&rig, D, 6);
	backrig_name(&rig, D, 1);
	backrig_put_front(&rig, D, "state", "1");
	backrig_await(&rig, D, 2);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
	ck_assert(rig.tap[1].served);
	backrig_settle(&rig);
	ck_assert_ptr_null(xenstore_peek(rig.xs, BACKRIG_ERROR, D));
}
END_TEST

START_TEST(a_tapdisk_that_dies_early_is_waited_for)
{
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	faketap_kill(&rig.tap[0]);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "3");
	backrig_run_ms(&rig, 150);
	ck_assert_int_eq(backrig_state(&rig, D), 2);
	backrig_name(&rig, D, 1);
	backrig_await(&rig, D, 4);
	ck_assert(rig.tap[1].served);
}
END_TEST

START_TEST(another_tapdisk_is_tried_at_once)
{
	faketap_kill(&rig.tap[0]);
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_run_ms(&rig, 900); /* the next attempt is far */
	backrig_name(&rig, D, 1);
	backrig_settle(&rig);
	ck_assert_int_eq(backrig_state(&rig, D), 2);
}
END_TEST

static bool is_held(struct backrig *r)
{
	return r->tap[0].held > 0;
}

/* While the tapdisk takes its time the guest changes its mind. */
START_TEST(a_ring_that_changes_during_connect_is_the_one_that_counts)
{
	rig.tap[0].hold = WIRE_CONNECT;
	rig.tap[0].refuse[WIRE_CONNECT] = _i ? EINVAL : 0;
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "3");
	backrig_run(&rig, is_held);
	backrig_put_front(&rig, D, "ring-ref", "99");
	backrig_put_front(&rig, D, "state", "3");
	backrig_run_ms(&rig, 20);
	faketap_release(&rig.tap[0]);
	if (_i)
		backrig_await(&rig, D, 5);
	rig.tap[0].refuse[WIRE_CONNECT] = 0;
	backrig_settle(&rig);
	ck_assert_int_eq(backrig_state(&rig, D), 4);
	ck_assert_uint_eq(rig.tap[0].refs[0], 99);
}
END_TEST

START_TEST(a_tapdisk_that_hangs_up_and_lives_is_listened_to_again)
{
	backrig_connect(&rig, D, 0);
	ck_assert_uint_eq(faketap_listeners(&rig.tap[0]), 1);
	rig.tap[0].sectors = 9000; /* and this we would have heard of */
	faketap_hang_up(&rig.tap[0]);
	backrig_settle(&rig);
	ck_assert_uint_eq(faketap_listeners(&rig.tap[0]), 1);
	ck_assert_int_eq(backrig_state(&rig, D), 4);
	ck_assert_str_eq(backrig_back(&rig, D, "sectors"), "9000");
	ck_assert_uint_eq(rig.tap[0].disconnects, 1); /* before all else */
}
END_TEST

START_TEST(a_tapdisk_that_is_busy_is_asked_again)
{
	rig.tap[0].refuse[WIRE_CONNECT] = EBUSY;
	rig.tap[0].refuse[WIRE_HELLO] = ENODEV;
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "4");
	backrig_run_ms(&rig, 50);
	rig.tap[0].refuse[WIRE_HELLO] = 0;
	backrig_run_ms(&rig, 300);
	rig.tap[0].refuse[WIRE_CONNECT] = 0;
	backrig_await(&rig, D, 4);
}
END_TEST

START_TEST(a_resize_is_told_in_one_transaction)
{
	backrig_connect(&rig, D, 0);
	rig.tap[0].sectors = 8192;
	faketap_tell(&rig.tap[0], "paused");
	faketap_tell(&rig.tap[0], "something new");
	faketap_tell(&rig.tap[0], "resized");
	backrig_settle(&rig);
	ck_assert_str_eq(backrig_back(&rig, D, "sectors"), "8192");
	ck_assert_int_eq(backrig_state(&rig, D), 4);
	ck_assert_uint_eq(xenstore_stamp(rig.xs, BACKRIG_B "/sectors", D),
			  xenstore_stamp(rig.xs, BACKRIG_B "/state", D));
	/* the same size once more is no news for a guest */
	_i = (int)xenstore_writes(rig.xs);
	faketap_tell(&rig.tap[0], "resized");
	backrig_settle(&rig);
	ck_assert_int_eq((int)xenstore_writes(rig.xs), _i);
}
END_TEST

START_TEST(a_broken_ring_is_reported)
{
	backrig_connect(&rig, D, 0);
	faketap_tell(&rig.tap[0], "ring-broken");
	backrig_settle(&rig);
	assert_error("71 ring");
	ck_assert_int_eq(backrig_state(&rig, D), 4);
}
END_TEST

/* --- xenstore */

START_TEST(others_who_interfere_only_cost_time)
{
	xenstore_interfere(rig.xs, _i ? 1000 : 5);
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_run_ms(&rig, 150);
	xenstore_interfere(rig.xs, 3);
	backrig_await(&rig, D, 2);
}
END_TEST

START_TEST(a_xenstore_that_fails_is_asked_again)
{
	backrig_connect(&rig, D, 0);
	xenstore_break(rig.xs, -EIO);
	backrig_put_front(&rig, D, "state", "5");
	backrig_settle(&rig);
	ck_assert(rig.tap[0].served);
	xenstore_break(rig.xs, 0);
	backrig_await(&rig, D, 5);
}
END_TEST

/* --- tapback itself */

static void restart(void)
{
	backrig_stop(&rig);
	backrig_settle(&rig);
	backrig_start(&rig);
	backrig_settle(&rig);
}

START_TEST(a_restart_disturbs_nobody)
{
	unsigned writes;

	rig.tap[0].stock = _i;
	backrig_connect(&rig, D, 0);
	backrig_connect(&rig, NEIGHBOUR, 1);
	for (int i = 0; i < 10; i++) {
		writes = xenstore_writes(rig.xs);
		restart();
		ck_assert_uint_eq(xenstore_writes(rig.xs), writes);
	}
	ck_assert_uint_eq(rig.tap[0].disconnects, 1);
	ck_assert_uint_eq(rig.tap[1].disconnects, 1);
	ck_assert(rig.tap[0].served && rig.tap[1].served);
	ck_assert_int_eq(device()->state, DEVICE_CONNECTED);
	backrig_put_front(&rig, D, "state", "5");
	backrig_await(&rig, D, 5);
	backrig_put_front(&rig, D, "state", "6");
	backrig_await(&rig, D, 6);
	ck_assert(!rig.tap[0].served);
}
END_TEST

START_TEST(a_restart_catches_up_with_what_was_missed)
{
	backrig_connect(&rig, D, 0);
	backrig_stop(&rig);
	backrig_settle(&rig);
	rig.tap[0].sectors = 4000;
	backrig_put_back(&rig, D, "polling-duration", "4000");
	backrig_start(&rig);
	backrig_settle(&rig);
	ck_assert_str_eq(backrig_back(&rig, D, "sectors"), "4000");
	ck_assert_uint_eq(xenstore_stamp(rig.xs, BACKRIG_B "/sectors", D),
			  xenstore_stamp(rig.xs, BACKRIG_B "/state", D));
	ck_assert_uint_eq(rig.tap[0].duration_us, 4000);
	ck_assert_uint_eq(rig.tap[0].disconnects, 1);
}
END_TEST

/* A rest that ends while the next call is under way already. */
START_TEST(a_guest_that_closes_meanwhile_is_not_asked_for_twice)
{
	rig.tap[0].refuse[WIRE_CONNECT] = EBUSY;
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "3");
	backrig_settle(&rig);
	rig.tap[0].hold = WIRE_XENBLKIF_DISCONNECT;
	backrig_put_front(&rig, D, "state", "6");
	backrig_run(&rig, is_held);
	backrig_run_ms(&rig, 300);
	ck_assert_uint_eq(rig.tap[0].held, 1);
	faketap_release(&rig.tap[0]);
	backrig_await(&rig, D, 6);
}
END_TEST

START_TEST(a_restart_sees_that_a_frontend_has_gone)
{
	backrig_connect(&rig, D, 0);
	backrig_stop(&rig);
	xenstore_put(rig.xs, NULL, BACKRIG_F, D);
	backrig_start(&rig);
	backrig_await(&rig, D, 6);
	ck_assert(!rig.tap[0].served);
}
END_TEST

static const struct {
	int stage; /* at which tapback ends */
	const char *then; /* what the frontend does meanwhile */
	int shows;
	bool served;
} missed[] = {
	{ 0, NULL, 2, false }, { 0, "3", 4, true },  { 0, "6", 6, false },
	{ 2, "5", 5, true },   { 2, "6", 6, false }, { 2, "1", 2, false },
	{ 3, NULL, 5, true },  { 3, "6", 6, false }, { 3, "1", 2, false },
	{ 4, NULL, 6, false }, { 4, "1", 2, false }, { 4, "4", 4, true },
};

START_TEST(a_restart_goes_on_from_every_state)
{
	backrig_get_to(&rig, D, missed[_i].stage);
	backrig_settle(&rig);
	backrig_stop(&rig);
	backrig_write_ring(&rig, D);
	if (missed[_i].then)
		backrig_put_front(&rig, D, "state", missed[_i].then);
	backrig_start(&rig);
	backrig_await(&rig, D, missed[_i].shows);
	backrig_settle(&rig);
	ck_assert_int_eq(backrig_state(&rig, D), missed[_i].shows);
	ck_assert_int_eq(rig.tap[0].served, missed[_i].served);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tapback_faults");
	TCase *tc = tcase_create("tapback_faults");
	SRunner *runner = srunner_create(suite);
	int failed;

	scratch_open();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, nobody_waits_for_a_tapdisk_that_hangs);
	tcase_add_loop_test(tc, a_lost_answer_to_connect_does_no_harm, 0, 2);
	tcase_add_test(tc, a_guest_has_its_pages_back_when_they_are_free);
	tcase_add_test(tc, a_device_that_is_removed_waits_for_no_tapdisk);
	tcase_add_test(tc,
		       a_dead_tapdisk_closes_the_device_and_can_be_replaced);
	tcase_add_test(tc, a_tapdisk_that_dies_early_is_waited_for);
	tcase_add_test(tc,
		       a_tapdisk_that_hangs_up_and_lives_is_listened_to_again);
	tcase_add_test(tc, another_tapdisk_is_tried_at_once);
	tcase_add_loop_test(
		tc, a_ring_that_changes_during_connect_is_the_one_that_counts,
		0, 2);
	tcase_add_test(tc,
		       a_guest_that_closes_meanwhile_is_not_asked_for_twice);
	tcase_add_test(tc, a_restart_sees_that_a_frontend_has_gone);
	tcase_add_test(tc, a_tapdisk_that_is_busy_is_asked_again);
	tcase_add_test(tc, a_resize_is_told_in_one_transaction);
	tcase_add_test(tc, a_broken_ring_is_reported);
	tcase_add_loop_test(tc, others_who_interfere_only_cost_time, 0, 2);
	tcase_add_test(tc, a_xenstore_that_fails_is_asked_again);
	tcase_add_loop_test(tc, a_restart_disturbs_nobody, 0, 2);
	tcase_add_test(tc, a_restart_catches_up_with_what_was_missed);
	tcase_add_loop_test(tc, a_restart_goes_on_from_every_state, 0,
			    COUNT(missed));
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
