/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a frontend must not write, key by key: it fails its own connect, says
 * why in the error node, and disturbs nobody.
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
#define LONG                                                         \
	"1111111111111111111111111111111111111111111111111111111111" \
	"1111111111111111111111111111111111111111111111111111111111" \
	"1111111111111111111111111111111111111111111111111111111111" \
	"1111111111111111111111111111111111111111111111111111111111" \
	"1111111111111111111111111111111111111111111111111111111111"

static struct backrig rig;

static void setup(void)
{
	backrig_open(&rig);
	backrig_connect(&rig, NEIGHBOUR, 1);
}

static void teardown(void)
{
	ck_assert(rig.tap[1].served);
	ck_assert_uint_eq(rig.tap[1].connects, 1);
	ck_assert_int_eq(backrig_state(&rig, NEIGHBOUR), 4);
	backrig_close(&rig);
}

static const struct {
	const char *key;
	const char *value; /* NULL: missing */
	int err;
	const char *where; /* the key that is blamed, if it is another */
} junk[] = {
	{ "ring-page-order", "", EINVAL, NULL },
	{ "ring-page-order", "-1", EINVAL, NULL },
	{ "ring-page-order", "5", ERANGE, NULL },
	{ "ring-page-order", "20", ERANGE, NULL },
	{ "ring-page-order", "31", ERANGE, NULL },
	{ "ring-page-order", "32", ERANGE, NULL },
	{ "ring-page-order", "1000000000", ERANGE, NULL },
	{ "ring-page-order", "4294967296", ERANGE, NULL },
	{ "ring-page-order", "18446744073709551617", ERANGE, NULL },
	{ "ring-page-order", "abc", EINVAL, NULL },
	{ "ring-page-order", "0x1", EINVAL, NULL },
	{ "ring-page-order", "01", EINVAL, NULL },
	{ "ring-page-order", "+1", EINVAL, NULL },
	{ "ring-page-order", " 1", EINVAL, NULL },
	{ "ring-page-order", "1 ", EINVAL, NULL },
	{ "ring-page-order", "1\n", EINVAL, NULL },
	{ "ring-page-order", LONG, E2BIG, NULL },
	{ "ring-page-order", "1", ENOENT, "ring-ref0" },
	{ "ring-ref", NULL, ENOENT, NULL },
	{ "ring-ref", "", EINVAL, NULL },
	{ "ring-ref", "-1", EINVAL, NULL },
	{ "ring-ref", "4294967296", ERANGE, NULL },
	{ "ring-ref", "8x", EINVAL, NULL },
	{ "ring-ref", "8 9", EINVAL, NULL },
	{ "ring-ref", LONG, E2BIG, NULL },
	{ "event-channel", NULL, ENOENT, NULL },
	{ "event-channel", "", EINVAL, NULL },
	{ "event-channel", "0", ERANGE, NULL },
	{ "event-channel", "-1", EINVAL, NULL },
	{ "event-channel", "131072", ERANGE, NULL },
	{ "event-channel", "4294967311", ERANGE, NULL },
	{ "event-channel", "0xf", EINVAL, NULL },
	{ "protocol", "", EPROTONOSUPPORT, NULL },
	{ "protocol", "x86_64", EPROTONOSUPPORT, NULL },
	{ "protocol", "X86_64-ABI", EPROTONOSUPPORT, NULL },
	{ "protocol", "x86_64-abi ", EPROTONOSUPPORT, NULL },
	{ "protocol", LONG, E2BIG, NULL },
	{ "feature-persistent", "", EINVAL, NULL },
	{ "feature-persistent", "2", EINVAL, NULL },
	{ "feature-persistent", "yes", EINVAL, NULL },
	{ "feature-persistent", "-1", EINVAL, NULL },
	{ "multi-queue-num-queues", "0", ERANGE, NULL },
	{ "multi-queue-num-queues", "2", ENOTSUP, NULL },
	{ "multi-queue-num-queues", "1000000", ENOTSUP, NULL },
	{ "multi-queue-num-queues", "99999999999", ERANGE, NULL },
	{ "multi-queue-num-queues", "many", EINVAL, NULL },
	{ "device-type", "", EOPNOTSUPP, NULL },
	{ "device-type", "tape", EOPNOTSUPP, NULL },
	{ "device-type", "Disk", EOPNOTSUPP, NULL },
};

static void assert_error(int err, const char *what)
{
	const char *node = xenstore_peek(rig.xs, BACKRIG_ERROR, D);
	char want[128];

	snprintf(want, sizeof(want), "%d %s", err, what);
	ck_assert_msg(node && !strcmp(node, want), "error node \"%s\", not %s",
		      node ? node : "(not there)", want);
}

/* Field: B01, B15: the other devices work. */
START_TEST(fails_only_the_connect_it_is_part_of)
{
	const char *before;
	char good[64] = "";

	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	backrig_write_ring(&rig, D);
	before = xenstore_peek(rig.xs, BACKRIG_F "/%s", D, junk[_i].key);
	if (before)
		snprintf(good, sizeof(good), "%s", before);
	backrig_put_front(&rig, D, junk[_i].key, junk[_i].value);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 5);
	backrig_settle(&rig);
	assert_error(junk[_i].err,
		     junk[_i].where ? junk[_i].where : junk[_i].key);
	ck_assert_uint_eq(rig.tap[0].connects, 0);
	ck_assert_uint_eq(rig.tap[0].hellos, 2); /* and it is not tried again */

	/* the guest thinks better of it */
	backrig_put_front(&rig, D, junk[_i].key, *good ? good : NULL);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
	backrig_settle(&rig);
	ck_assert(rig.tap[0].served);
	ck_assert_ptr_null(xenstore_peek(rig.xs, BACKRIG_ERROR, D));
}
END_TEST

/* As frontends do that are told Closing. */
START_TEST(lets_the_guest_close_and_try_again)
{
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_put_front(&rig, D, "state", "4");
	backrig_await(&rig, D, 5);
	backrig_put_front(&rig, D, "state", "6");
	backrig_await(&rig, D, 6);
	backrig_put_front(&rig, D, "state", "1");
	backrig_await(&rig, D, 2);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
}
END_TEST

START_TEST(sees_bytes_that_are_no_text)
{
	char path[128];

	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_write_ring(&rig, D);
	snprintf(path, sizeof(path), BACKRIG_F "/ring-ref", D);
	xenstore_put_bytes(rig.xs, path, "8\0009", 3);
	backrig_put_front(&rig, D, "state", "4");
	backrig_await(&rig, D, 5);
	assert_error(EINVAL, "ring-ref");
}
END_TEST

START_TEST(refuses_one_page_at_two_places)
{
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "ring-page-order", "1");
	backrig_put_front(&rig, D, "ring-ref0", "9");
	backrig_put_front(&rig, D, "ring-ref1", "9");
	backrig_put_front(&rig, D, "state", "4");
	backrig_await(&rig, D, 5);
	assert_error(EINVAL, "ring-ref1");
}
END_TEST

START_TEST(takes_no_larger_ring_than_a_stock_tapdisk_can)
{
	rig.tap[0].stock = true;
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "ring-page-order", "4");
	backrig_put_front(&rig, D, "state", "4");
	backrig_await(&rig, D, 5);
	assert_error(ERANGE, "ring-page-order");
}
END_TEST

static const char *const states[] = { "",   "2",  "7",	 "8",	"9", "-1",
				      "04", "4 ", "0x4", "abc", LONG };

START_TEST(stays_where_it_is_for_a_state_that_is_none)
{
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_await(&rig, D, 2);
	backrig_put_front(&rig, D, "state", states[_i]);
	backrig_settle(&rig);
	ck_assert_int_eq(backrig_state(&rig, D), 2);
	assert_error(EINVAL, "state");
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "3");
	backrig_await(&rig, D, 4);
	backrig_put_front(&rig, D, "state", states[_i]);
	backrig_settle(&rig);
	ck_assert_int_eq(backrig_state(&rig, D), 4);
	ck_assert(rig.tap[0].served);
	assert_error(EINVAL, "state");
}
END_TEST

static const struct {
	const char *mode;
	int err;
} modes[] = {
	{ NULL, ENOENT }, { "", ENOENT }, { "rw", EINVAL }, { "x", EINVAL }
};

START_TEST(guesses_no_mode)
{
	backrig_plug(&rig, D);
	backrig_put_back(&rig, D, "mode", modes[_i].mode);
	backrig_name(&rig, D, 0);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "4");
	backrig_await(&rig, D, 5);
	assert_error(modes[_i].err, "mode");
}
END_TEST

START_TEST(blames_the_guest_for_what_a_tapdisk_refuses)
{
	rig.tap[0].refuse[WIRE_CONNECT] = EINVAL;
	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_write_ring(&rig, D);
	backrig_put_front(&rig, D, "state", "4");
	backrig_await(&rig, D, 5);
	backrig_settle(&rig);
	assert_error(EINVAL, "connect");
	rig.tap[0].refuse[WIRE_CONNECT] = 0;
	backrig_run_ms(&rig, 300);
	ck_assert(!rig.tap[0].served);
}
END_TEST

/* Connects that fail, over and over: nothing piles up. */
START_TEST(wears_nothing_out)
{
	unsigned nodes, fds;

	backrig_plug(&rig, D);
	backrig_name(&rig, D, 0);
	backrig_put_front(&rig, D, "ring-page-order", "junk");
	backrig_put_front(&rig, D, "state", "4");
	backrig_await(&rig, D, 5);
	backrig_settle(&rig);
	nodes = xenstore_nodes(rig.xs);
	fds = scratch_descriptors();
	for (int i = 0; i < 1000; i++) {
		backrig_put_front(&rig, D, "state", i & 1 ? "3" : "4");
		backrig_settle(&rig);
	}
	backrig_settle(&rig);
	ck_assert_uint_eq(xenstore_nodes(rig.xs), nodes);
	ck_assert_uint_eq(scratch_descriptors(), fds);
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof(table[0])))

int main(void)
{
	Suite *suite = suite_create("tapback_junk");
	TCase *tc = tcase_create("tapback_junk");
	SRunner *runner = srunner_create(suite);
	int failed;

	scratch_open();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, fails_only_the_connect_it_is_part_of, 0,
			    COUNT(junk));
	tcase_add_test(tc, lets_the_guest_close_and_try_again);
	tcase_add_test(tc, sees_bytes_that_are_no_text);
	tcase_add_test(tc, refuses_one_page_at_two_places);
	tcase_add_test(tc, takes_no_larger_ring_than_a_stock_tapdisk_can);
	tcase_add_loop_test(tc, stays_where_it_is_for_a_state_that_is_none, 0,
			    COUNT(states));
	tcase_add_loop_test(tc, guesses_no_mode, 0, COUNT(modes));
	tcase_add_test(tc, blames_the_guest_for_what_a_tapdisk_refuses);
	tcase_add_test(tc, wears_nothing_out);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
