/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guests and toolstacks in a hurry, and those that leave without a word.  The
 * last that they say is what counts.
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
#define FLIPS 10000 /* times SCALE */

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

/* Field: B09 */
START_TEST(the_last_of_many_flips_counts)
{
	const char *scale = getenv("SCALE");
	int flips = (int)(FLIPS * (scale ? strtod(scale, NULL) : 1));
	unsigned seed = 1, fds;

	backrig_connect(&rig, NEIGHBOUR, 1);
	backrig_connect(&rig, D, 0);
	backrig_settle(&rig);
	fds = scratch_descriptors();
	for (int i = 0; i < flips; i++)
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

/* Field: B04: state 5 while the guest still works. */
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

/* Field: B06 */
START_TEST(nothing_is_left_of_what_the_toolstack_removes)
{
	unsigned nodes = xenstore_nodes(rig.xs);

	for (int i = 0; i < 50; i++) {
		backrig_get_to(&rig, D, _i % 5);
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

/* Field: B14 */
START_TEST(a_frontend_that_vanishes_is_closed)
{
	backrig_get_to(&rig, D, _i);
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
	backrig_get_to(&rig, D, _i % 5);
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
	backrig_get_to(&rig, D, _i);
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

static void close_it(void *arg)
{
	(void)arg;
	backrig_put_back(&rig, D, "state", "5");
}

START_TEST(what_the_toolstack_asks_for_is_not_written_over)
{
	xenstore_before_commit(rig.xs, close_it, NULL);
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0); /* and tapback writes 2 */
	backrig_await(&rig, D, 6);
}
END_TEST

/* Field: B16 */
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

int main(void)
{
	Suite *suite = suite_create("tapback_guests");
	TCase *tc = tcase_create("tapback_guests");
	SRunner *runner = srunner_create(suite);
	int failed;

	scratch_open();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, connected_again_is_nothing_new);
	tcase_add_loop_test(tc, another_ring_takes_the_place_of_the_one_before,
			    0, 2);
	tcase_add_loop_test(tc, closing_is_answered_in_every_state, 0, 3);
	tcase_add_test(tc, the_last_of_many_flips_counts);
	tcase_add_test(tc, a_flood_of_events_costs_few_looks);
	tcase_add_loop_test(
		tc, a_guest_that_uses_the_disk_decides_when_it_closes, 0, 2);
	tcase_add_loop_test(tc, a_device_nobody_uses_closes_at_once, 0, 3);
	tcase_add_loop_test(tc, nothing_is_left_of_what_the_toolstack_removes,
			    0, 2 * BACKRIG_STAGES);
	tcase_add_loop_test(tc, a_frontend_that_vanishes_is_closed, 0,
			    BACKRIG_STAGES);
	tcase_add_loop_test(tc, a_dead_domain_holds_no_ring, 0,
			    2 * BACKRIG_STAGES);
	tcase_add_loop_test(tc, nothing_rises_from_the_dead, 0, 3);
	tcase_add_test(tc, what_the_toolstack_asks_for_is_not_written_over);
	tcase_add_test(tc, a_device_can_be_made_again_at_once);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
