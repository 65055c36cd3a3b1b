/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tapback when things go wrong or away: tapdisks that hang and die, guests
 * and toolstacks in a hurry, a xenstore that is contended, tapback itself.
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

/* --- guests in a hurry */

START_TEST(connected_again_is_nothing_new)
{
	backrig_connect(&rig, D, 0);
	for (int i = 0; i < 10; i++) {
		backrig_put_front(&rig, D, "state", i & 1 ? "3" : "4");
		backrig_settle(&rig);
	}
	ck_assert_uint_eq(rig.tap[0].connects, 1);
	ck_assert_uint_eq(rig.tap[0].disconnects, 1);
}
END_TEST

/* A crash kernel: no goodbye from the one before. */
START_TEST(another_ring_takes_the_place_of_the_one_before)
{
	backrig_connect(&rig, D, 0);
	if (_i) {
		backrig_put_front(&rig, D, "state", "1");
		backrig_await(&rig, D, 2);
		ck_assert(!rig.tap[0].served);
	}
	backrig_put_front(&rig, D, "ring-ref", "99");
	backrig_put_front(&rig, D, "state", "3");
	if (_i)
		backrig_await(&rig, D, 4);
	backrig_settle(&rig);
	ck_assert(rig.tap[0].served);
	ck_assert_uint_eq(rig.tap[0].refs[0], 99);
	ck_assert_uint_eq(rig.tap[0].connects, 2);
	ck_assert_int_eq(backrig_state(&rig, D), 4);
}
END_TEST

/* Windows does so at each boot, before it has ever connected. */
START_TEST(closing_is_answered_in_every_state)
{
	static const char *const from[] = { "1", "3", "4" };

	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	backrig_write_ring(&rig, D);
	for (int i = 0; i < 50; i++) {
		backrig_put_front(&rig, D, "state", from[_i]);
		backrig_await(&rig, D, _i ? 4 : 2);
		backrig_put_front(&rig, D, "state", "5");
		backrig_await(&rig, D, 5);
		backrig_put_front(&rig, D, "state", "6");
		backrig_await(&rig, D, 6);
		backrig_put_front(&rig, D, "state", "1");
		backrig_await(&rig, D, 2);
		ck_assert(!rig.tap[0].served);
	}
}
END_TEST

static void flip(unsigned *seed)
{
	char text[2] = { (char)('0' + rand_r(seed) % 7), 0 };

	backrig_put_front(&rig, D, "state", rand_r(seed) % 50 ? text : NULL);
	if (rand_r(seed) % 4 == 0) {
		snprintf(text, sizeof(text), "%d", 8 + rand_r(seed) % 2);
		backrig_put_front(&rig, D, "ring-ref", text);
	}
	if (rand_r(seed) % 3 == 0)
		backrig_run_ms(&rig, 0);
	if (rand_r(seed) % 8 == 0)
		backrig_settle(&rig);
}

START_TEST(the_last_of_ten_thousand_flips_counts)
{
	unsigned seed = 1, fds;

	backrig_connect(&rig, NEIGHBOUR, 1);
	backrig_connect(&rig, D, 0);
	backrig_settle(&rig);
	fds = scratch_descriptors();
	for (int i = 0; i < 10000; i++)
		flip(&seed);
	backrig_put_front(&rig, D, "ring-ref", "8");
	backrig_put_front(&rig, D, "state", "6");
	backrig_await(&rig, D, 6);
	ck_assert(!rig.tap[0].served);
	backrig_put_front(&rig, D, "state", "1");
	backrig_await(&rig, D, 2);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
	backrig_settle(&rig);
	ck_assert_uint_eq(rig.tap[0].refs[0], 8);
	ck_assert_uint_eq(scratch_descriptors(), fds);
	ck_assert_uint_eq(rig.tap[1].connects, 1);
	ck_assert(rig.tap[1].served);
}
END_TEST

START_TEST(a_flood_of_events_costs_few_looks)
{
	unsigned all;

	backrig_connect(&rig, D, 0);
	all = rig.tap[0].all;
	for (int i = 0; i < 20000; i++)
		backrig_put_front(&rig, D, "state", "4");
	/* and who comes last does not wait for the end of it all */
	backrig_connect(&rig, NEIGHBOUR, 1);
	backrig_settle(&rig);
	ck_assert_uint_eq(rig.tap[0].all, all);
	ck_assert_int_eq(backrig_state(&rig, D), 4);
}
END_TEST

/* --- toolstacks */

START_TEST(a_guest_that_uses_the_disk_decides_when_it_closes)
{
	backrig_connect(&rig, D, 0);
	backrig_put_back(&rig, D, "online", "0");
	backrig_put_back(&rig, D, "state", "5");
	backrig_settle(&rig);
	ck_assert(rig.tap[0].served);
	ck_assert_int_eq(backrig_state(&rig, D), 5);
	if (_i) { /* and another tapback knows it as well */
		backrig_stop(&rig);
		backrig_start(&rig);
		backrig_settle(&rig);
		ck_assert(rig.tap[0].served);
		ck_assert_int_eq(backrig_state(&rig, D), 5);
	}
	backrig_put_front(&rig, D, "state", "5");
	backrig_settle(&rig);
	ck_assert(rig.tap[0].served);
	backrig_put_front(&rig, D, "state", "6");
	backrig_await(&rig, D, 6);
	ck_assert(!rig.tap[0].served);
	/* it is not to come back */
	backrig_put_front(&rig, D, "state", "1");
	backrig_settle(&rig);
	ck_assert_int_eq(backrig_state(&rig, D), 6);
}
END_TEST

START_TEST(a_device_nobody_uses_closes_at_once)
{
	backrig_plug(&rig, D);
	if (_i) {
		backrig_name(&rig, D, 0);
		backrig_await(&rig, D, 2);
	}
	if (_i == 2) {
		backrig_put_front(&rig, D, "state", "6");
		backrig_await(&rig, D, 6);
	}
	backrig_put_back(&rig, D, "online", "0");
	backrig_put_back(&rig, D, "state", "5");
	backrig_await(&rig, D, 6);
}
END_TEST

/* Where the frontend is when its device, itself, or its domain goes. */
static const char *const stages[] = { "1", "3", "4", "5", "6" };

static void get_to(int stage)
{
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	if (stage == 0)
		return;
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "3");
	if (stage > 1)
		backrig_await(&rig, D, 4);
	if (stage > 1)
		backrig_put_front(&rig, D, "state", stages[stage]);
}

START_TEST(nothing_is_left_of_what_the_toolstack_removes)
{
	unsigned nodes = xenstore_nodes(rig.xs);

	for (int i = 0; i < 50; i++) {
		get_to(_i % 5);
		if (_i >= 5)
			backrig_settle(&rig);
		xenstore_put(rig.xs, NULL, "/local");
		backrig_settle(&rig);
		ck_assert_ptr_null(device());
		ck_assert(!rig.tap[0].served);
		ck_assert_uint_eq(faketap_listeners(&rig.tap[0]), 0);
		ck_assert_uint_eq(xenstore_nodes(rig.xs), nodes);
		ck_assert_uint_eq(xenstore_watches(rig.xs), 2);
	}
}
END_TEST

START_TEST(a_frontend_that_vanishes_is_closed)
{
	get_to(_i);
	xenstore_put(rig.xs, NULL, BACKRIG_F, D);
	backrig_await(&rig, D, 6);
	ck_assert(!rig.tap[0].served);
	/* it may come back: the domain lives */
	backrig_put_front(&rig, D, "state", "1");
	backrig_await(&rig, D, 2);
}
END_TEST

START_TEST(a_dead_domain_holds_no_ring)
{
	get_to(_i % 5);
	rig.dead = D;
	if (_i >= 5) /* the frontend's part of xenstore goes as well */
		xenstore_put(rig.xs, NULL, BACKRIG_F, D);
	xenstore_fire(rig.xs, "@releaseDomain");
	backrig_settle(&rig);
	ck_assert(!rig.tap[0].served);
	ck_assert_int_eq(backrig_state(&rig, D), _i >= 5 ? -1 : 6);
}
END_TEST

static void remove_it(void *arg)
{
	(void)arg;
	xenstore_put(rig.xs, NULL, "/local/domain/0/backend/vbd3/%u", D);
}

START_TEST(nothing_rises_from_the_dead)
{
	get_to(_i);
	xenstore_before_commit(rig.xs, remove_it, NULL);
	backrig_put_front(&rig, D, "state", _i == 0 ? "3" : "5");
	if (_i == 0)
		backrig_write_ring(&rig, D);
	backrig_settle(&rig);
	ck_assert_ptr_null(xenstore_peek(rig.xs, BACKRIG_B, D));
	ck_assert_ptr_null(device());
	ck_assert(!rig.tap[0].served);
}
END_TEST

START_TEST(a_device_can_be_made_again_at_once)
{
	backrig_connect(&rig, D, 0);
	for (int i = 0; i < 50; i++) {
		backrig_unplug(&rig, D);
		backrig_plug(&rig, D);
		backrig_name(&rig, D, i & 1);
		backrig_await(&rig, D, 2);
		backrig_write_ring(&rig, D);
		backrig_put_front(&rig, D, "state", "3");
		backrig_await(&rig, D, 4);
		ck_assert(rig.tap[i & 1].served);
		ck_assert(!rig.tap[!(i & 1)].served || i == 0);
	}
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
	get_to(missed[_i].stage);
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
	tcase_add_test(tc, a_tapdisk_that_is_busy_is_asked_again);
	tcase_add_test(tc, a_resize_is_told_in_one_transaction);
	tcase_add_test(tc, a_broken_ring_is_reported);
	tcase_add_test(tc, connected_again_is_nothing_new);
	tcase_add_loop_test(tc, another_ring_takes_the_place_of_the_one_before,
			    0, 2);
	tcase_add_loop_test(tc, closing_is_answered_in_every_state, 0, 3);
	tcase_add_test(tc, the_last_of_ten_thousand_flips_counts);
	tcase_add_test(tc, a_flood_of_events_costs_few_looks);
	tcase_add_loop_test(
		tc, a_guest_that_uses_the_disk_decides_when_it_closes, 0, 2);
	tcase_add_loop_test(tc, a_device_nobody_uses_closes_at_once, 0, 3);
	tcase_add_loop_test(tc, nothing_is_left_of_what_the_toolstack_removes,
			    0, 2 * COUNT(stages));
	tcase_add_loop_test(tc, a_frontend_that_vanishes_is_closed, 0,
			    COUNT(stages));
	tcase_add_loop_test(tc, a_dead_domain_holds_no_ring, 0,
			    2 * COUNT(stages));
	tcase_add_loop_test(tc, nothing_rises_from_the_dead, 0, 3);
	tcase_add_test(tc, a_device_can_be_made_again_at_once);
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
