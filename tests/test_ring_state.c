/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a ring: every cell of its table, written down a second time. */
#include <check.h>
#include <string.h>
#include "ring/ring_state.h"

/* Every state with every event; nothing here is left to a default. */
static const struct {
	enum ring_state from;
	enum ring_event event;
	enum ring_state to;
	const char *why;
} cells[] = {
	{ RING_HELD, RING_EV_HOLD, RING_HELD, "held already" },
	{ RING_HELD, RING_EV_RELEASE, RING_RUNNING, "resumed" },
	{ RING_HELD, RING_EV_FAULT, RING_HELD, "nobody looks at the guest" },
	{ RING_HELD, RING_EV_DISCONNECT, RING_DRAINING, "goes" },
	{ RING_HELD, RING_EV_IDLE, RING_HELD, "idle is what held is" },
	{ RING_RUNNING, RING_EV_HOLD, RING_HELD, "paused" },
	{ RING_RUNNING, RING_EV_RELEASE, RING_RUNNING, "runs already" },
	{ RING_RUNNING, RING_EV_FAULT, RING_BROKEN, "the guest's doing" },
	{ RING_RUNNING, RING_EV_DISCONNECT, RING_DRAINING, "goes" },
	{ RING_RUNNING, RING_EV_IDLE, RING_RUNNING, "waits for more" },
	{ RING_BROKEN, RING_EV_HOLD, RING_BROKEN, "a pause mends nothing" },
	{ RING_BROKEN, RING_EV_RELEASE, RING_BROKEN, "nor does a resume" },
	{ RING_BROKEN, RING_EV_FAULT, RING_BROKEN, "as broken as before" },
	{ RING_BROKEN, RING_EV_DISCONNECT, RING_DRAINING, "the way out" },
	{ RING_BROKEN, RING_EV_IDLE, RING_BROKEN, "until it disconnects" },
	{ RING_DRAINING, RING_EV_HOLD, RING_DRAINING, "no way back" },
	{ RING_DRAINING, RING_EV_RELEASE, RING_DRAINING, "no way back" },
	{ RING_DRAINING, RING_EV_FAULT, RING_DRAINING, "the guest is gone" },
	{ RING_DRAINING, RING_EV_DISCONNECT, RING_DRAINING, "told before" },
	{ RING_DRAINING, RING_EV_IDLE, RING_GONE, "its last I/O ended" },
	{ RING_GONE, RING_EV_HOLD, RING_GONE, "gone" },
	{ RING_GONE, RING_EV_RELEASE, RING_GONE, "gone" },
	{ RING_GONE, RING_EV_FAULT, RING_GONE, "gone" },
	{ RING_GONE, RING_EV_DISCONNECT, RING_GONE, "gone" },
	{ RING_GONE, RING_EV_IDLE, RING_GONE, "gone" },
};

enum { NR_CELLS = sizeof(cells) / sizeof(cells[0]) };

START_TEST(each_event_leads_where_it_should)
{
	enum ring_state to = ring_state_next(cells[_i].from, cells[_i].event);

	ck_assert_msg(to == cells[_i].to, "%s, event %d (%s): %s",
		      ring_state_name(cells[_i].from), cells[_i].event,
		      cells[_i].why, ring_state_name(to));
}
END_TEST

START_TEST(the_cells_above_are_all_there_are)
{
	bool seen[NR_RING_STATES][NR_RING_EVENTS] = { 0 };

	for (int i = 0; i < NR_CELLS; i++) {
		ck_assert(!seen[cells[i].from][cells[i].event]);
		seen[cells[i].from][cells[i].event] = true;
	}
	for (int s = RING_NONE + 1; s < NR_RING_STATES; s++)
		for (int e = 0; e < NR_RING_EVENTS; e++)
			ck_assert_msg(seen[s][e], "state %d, event %d", s, e);
}
END_TEST

START_TEST(a_guests_fault_can_only_break_its_ring)
{
	for (int s = RING_NONE + 1; s < NR_RING_STATES; s++) {
		enum ring_state to =
			ring_state_next((enum ring_state)s, RING_EV_FAULT);

		ck_assert(to == (enum ring_state)s || to == RING_BROKEN);
	}
}
END_TEST

/* The only other thing a guest can cause is the end of its I/O. */
START_TEST(nothing_a_guest_does_mends_a_broken_ring)
{
	ck_assert_int_eq(ring_state_next(RING_BROKEN, RING_EV_FAULT),
			 RING_BROKEN);
	ck_assert_int_eq(ring_state_next(RING_BROKEN, RING_EV_IDLE),
			 RING_BROKEN);
}
END_TEST

/* disconnect, then idle: whatever a guest did, the toolstack gets rid of it */
START_TEST(every_ring_can_be_got_rid_of)
{
	for (int s = RING_NONE + 1; s < NR_RING_STATES; s++) {
		enum ring_state state = (enum ring_state)s;

		state = ring_state_next(state, RING_EV_DISCONNECT);
		state = ring_state_next(state, RING_EV_IDLE);
		ck_assert_int_eq(state, RING_GONE);
	}
}
END_TEST

START_TEST(every_state_has_a_name_of_its_own)
{
	for (int s = 0; s < NR_RING_STATES; s++) {
		const char *name = ring_state_name((enum ring_state)s);

		ck_assert_ptr_nonnull(name);
		for (int k = 0; k < s; k++)
			ck_assert_str_ne(name,
					 ring_state_name((enum ring_state)k));
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ring_state");
	TCase *tcase = tcase_create("ring_state");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tcase, each_event_leads_where_it_should, 0,
			    NR_CELLS);
	tcase_add_test(tcase, the_cells_above_are_all_there_are);
	tcase_add_test(tcase, a_guests_fault_can_only_break_its_ring);
	tcase_add_test(tcase, nothing_a_guest_does_mends_a_broken_ring);
	tcase_add_test(tcase, every_ring_can_be_got_rid_of);
	tcase_add_test(tcase, every_state_has_a_name_of_its_own);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
