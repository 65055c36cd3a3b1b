/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vbd from end to end, in one process: who decides how it waits, how soon
 * that acts, and that a ring which is watched needs no events.
 */
#include <errno.h>
#include <stdio.h>
#include "poll/clock.h"
#include "tests/rig.h"
#include "tests/stand.h"

static void report(struct stand *stand, struct vbd_polling_report *out)
{
	vbd_polling_report(stand->vbd, out);
}

START_TEST(tap_ctl_holds_until_default_and_of_the_others_the_newest_counts)
{
	struct vbd_polling a = { .mode = WAIT_FIXED, .duration_us = 5000 };
	struct vbd_polling b = { .mode = WAIT_FIXED, .duration_us = 7000 };
	struct vbd_polling_report r;
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	report(&stand, &r);
	ck_assert_int_eq(r.source, VBD_FROM_DEFAULT);
	ck_assert_uint_eq(r.effective_us, 0);
	ck_assert_int_eq(vbd_set_polling(stand.vbd, VBD_FROM_CONNECT, &a), 0);
	report(&stand, &r);
	ck_assert_uint_eq(r.effective_us, 5000);
	ck_assert_int_eq(vbd_set_polling(stand.vbd, VBD_FROM_TAP_CTL, &b), 0);
	ck_assert_int_eq(vbd_set_polling(stand.vbd, VBD_FROM_XENSTORE, &a), 0);
	report(&stand, &r);
	ck_assert_int_eq(r.source, VBD_FROM_TAP_CTL);
	ck_assert_uint_eq(r.effective_us, 7000);
	ck_assert_int_eq(vbd_set_polling(stand.vbd, VBD_FROM_TAP_CTL, NULL), 0);
	report(&stand, &r);
	ck_assert_int_eq(r.source, VBD_FROM_XENSTORE);
	a.duration_us = 0;
	a.align = true;
	vbd_set_polling(stand.vbd, VBD_FROM_TAP_CTL, &a);
	report(&stand, &r);
	ck_assert_uint_eq(r.effective_us, 2 * r.granularity.us);
	a.duration_us = 60000001;
	ck_assert_int_eq(vbd_set_polling(stand.vbd, VBD_FROM_TAP_CTL, &a),
			 -EINVAL);
	stand_close(&stand);
}
END_TEST

START_TEST(a_retune_acts_within_ten_milliseconds)
{
	struct vbd_polling spin = { .mode = WAIT_FIXED,
				    .duration_us = 60000000,
				    .has_cap = true };
	struct vbd_polling_report before, after;
	uint8_t data[512];
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	vbd_set_polling(stand.vbd, VBD_FROM_TAP_CTL, &spin);
	stand_run(&stand, 20);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 512, data), 0);
	report(&stand, &before);
	stand_run(&stand, 50);
	spin.mode = WAIT_EVENT;
	vbd_set_polling(stand.vbd, VBD_FROM_TAP_CTL, &spin);
	stand_run(&stand, 100);
	/* asleep: a guest that obeys req_event has to send an event */
	report(&stand, &after);
	ck_assert_uint_gt(after.waits.sleeps, before.waits.sleeps);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 512, data), 0);
	report(&stand, &after);
	ck_assert_uint_gt(after.guest_events, before.guest_events);
	stand_close(&stand);
}
END_TEST

/*
 * A tapdisk that loses the CPU leaves it to others for a while, and sleeps; on
 * a loaded machine that is most of the time.  So what counts are groups of
 * requests during which nothing of the kind happened: where suppression does
 * not work there is none without an event.
 */
enum { GROUP = 10, WANTED = 100, ENOUGH = 5, PATIENCE_S = 20 };

START_TEST(a_spinning_ring_needs_no_events)
{
	struct vbd_polling spin = { .mode = WAIT_FIXED,
				    .duration_us = 10000000,
				    .has_cap = true };
	unsigned groups = 0, clean = 0;
	struct vbd_polling_report before, after;
	struct stand stand;
	uint64_t end, kicks;
	uint8_t data[512];

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	vbd_set_polling(stand.vbd, VBD_FROM_TAP_CTL, &spin);
	ck_assert_int_eq(stand_connect(&stand), 0);
	end = clock_ns() + PATIENCE_S * STAND_SECOND;
	for (; clean < WANTED && clock_ns() < end; groups++) {
		if (groups % 10 == 0)
			stand_run(&stand, 2); /* where the governor lives */
		/* the first may find it asleep */
		stand_io(&stand, BLKIF_OP_READ, 0, 512, data);
		report(&stand, &before);
		kicks = frontend_counters(stand.f)->kicks;
		for (unsigned i = 0; i < GROUP; i++)
			ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 512,
						  data),
					 0);
		report(&stand, &after);
		if (after.waits.arms == before.waits.arms &&
		    frontend_counters(stand.f)->kicks == kicks)
			clean++;
	}
	printf("%u of %u groups of %u requests without an event\n", clean,
	       groups, GROUP);
	fflush(stdout);
	ck_assert_uint_ge(clean, ENOUGH);
	stand_close(&stand);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("vbd_polling");
	TCase *t = tcase_create("polling");

	tcase_set_timeout(t, 60);
	tcase_add_test(
		t,
		tap_ctl_holds_until_default_and_of_the_others_the_newest_counts);
	tcase_add_test(t, a_retune_acts_within_ten_milliseconds);
	tcase_add_test(t, a_spinning_ring_needs_no_events);
	suite_add_tcase(s, t);
	return rig_run(s);
}
