/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a virtual disk, every cell written down a second time, and the
 * state word, whose values other people's parsers know.
 */
#include <check.h>
#include <stdbool.h>
#include <string.h>
#include "ring/vbd_state.h"

/* What is allowed; all else must lead to VBD_STATE_NONE. */
static const struct {
	enum vbd_state from;
	enum vbd_state_event event;
	enum vbd_state to;
} allowed[] = {
	{ VBD_STATE_EMPTY, VBD_EV_OPENED, VBD_STATE_OPEN },
	{ VBD_STATE_OPEN, VBD_EV_PAUSE, VBD_STATE_PAUSING },
	{ VBD_STATE_OPEN, VBD_EV_CLOSE, VBD_STATE_CLOSING },
	{ VBD_STATE_OPEN, VBD_EV_FORCE, VBD_STATE_EMPTY },
	{ VBD_STATE_PAUSING, VBD_EV_QUIET, VBD_STATE_PAUSED },
	{ VBD_STATE_PAUSING, VBD_EV_CLOSE, VBD_STATE_CLOSING },
	{ VBD_STATE_PAUSING, VBD_EV_FORCE, VBD_STATE_EMPTY },
	{ VBD_STATE_PAUSED, VBD_EV_RESUMED, VBD_STATE_OPEN },
	{ VBD_STATE_PAUSED, VBD_EV_RESUME_FAILED, VBD_STATE_RESUME_FAILED },
	{ VBD_STATE_PAUSED, VBD_EV_CLOSE, VBD_STATE_CLOSING },
	{ VBD_STATE_PAUSED, VBD_EV_FORCE, VBD_STATE_EMPTY },
	{ VBD_STATE_RESUME_FAILED, VBD_EV_RESUMED, VBD_STATE_OPEN },
	{ VBD_STATE_RESUME_FAILED, VBD_EV_RESUME_FAILED,
	  VBD_STATE_RESUME_FAILED },
	{ VBD_STATE_RESUME_FAILED, VBD_EV_CLOSE, VBD_STATE_CLOSING },
	{ VBD_STATE_RESUME_FAILED, VBD_EV_FORCE, VBD_STATE_EMPTY },
	{ VBD_STATE_CLOSING, VBD_EV_QUIET, VBD_STATE_EMPTY },
	{ VBD_STATE_CLOSING, VBD_EV_FORCE, VBD_STATE_EMPTY },
};

enum { NR_ALLOWED = sizeof(allowed) / sizeof(allowed[0]) };

static enum vbd_state want(enum vbd_state from, enum vbd_state_event event)
{
	for (int i = 0; i < NR_ALLOWED; i++)
		if (allowed[i].from == from && allowed[i].event == event)
			return allowed[i].to;
	return VBD_STATE_NONE;
}

START_TEST(each_event_leads_where_it_should_or_is_refused)
{
	enum vbd_state from = (enum vbd_state)_i;

	for (int e = 0; e < NR_VBD_STATE_EVENTS; e++) {
		enum vbd_state_event event = (enum vbd_state_event)e;
		enum vbd_state to = vbd_state_next(from, event);

		ck_assert_msg(to == want(from, event), "%s, event %d: %s",
			      vbd_state_name(from), e, vbd_state_name(to));
	}
}
END_TEST

/* Whatever a disk is doing, closing it by force ends that at once. */
START_TEST(every_disk_can_be_closed)
{
	for (int s = VBD_STATE_OPEN; s < NR_VBD_STATES; s++) {
		enum vbd_state state = (enum vbd_state)s;

		ck_assert_int_eq(vbd_state_next(state, VBD_EV_FORCE),
				 VBD_STATE_EMPTY);
		if (state != VBD_STATE_CLOSING)
			state = vbd_state_next(state, VBD_EV_CLOSE);
		ck_assert_int_eq(state, VBD_STATE_CLOSING);
		ck_assert_int_eq(vbd_state_next(state, VBD_EV_QUIET),
				 VBD_STATE_EMPTY);
	}
}
END_TEST

START_TEST(a_failed_resume_can_be_tried_again)
{
	enum vbd_state state =
		vbd_state_next(VBD_STATE_PAUSED, VBD_EV_RESUME_FAILED);

	state = vbd_state_next(state, VBD_EV_RESUME_FAILED);
	ck_assert_int_eq(vbd_state_next(state, VBD_EV_RESUMED), VBD_STATE_OPEN);
}
END_TEST

/* Literals: xapi compares with "0x2a", the storage manager tests bits. */
static const struct {
	enum vbd_state state;
	uint32_t word, closed_word;
} words[] = {
	{ VBD_STATE_EMPTY, 0, 0x2 },
	{ VBD_STATE_OPEN, 0, 0x2 },
	{ VBD_STATE_PAUSING, 0x14, 0x2 },
	{ VBD_STATE_PAUSED, 0x2a, 0x2a },
	{ VBD_STATE_RESUME_FAILED, 0x22a, 0x2a },
	{ VBD_STATE_CLOSING, 0x40, 0x2 },
};

START_TEST(the_word_is_upstreams)
{
	ck_assert_uint_eq(vbd_state_bits(words[_i].state), words[_i].word);
	ck_assert_uint_eq(vbd_state_closed_word(words[_i].state),
			  words[_i].closed_word);
}
END_TEST

START_TEST(every_state_has_a_name_of_its_own)
{
	for (int s = 0; s < NR_VBD_STATES; s++) {
		const char *name = vbd_state_name((enum vbd_state)s);

		ck_assert_ptr_nonnull(name);
		for (int k = 0; k < s; k++)
			ck_assert_str_ne(name,
					 vbd_state_name((enum vbd_state)k));
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("vbd_state");
	TCase *tcase = tcase_create("vbd_state");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tcase,
			    each_event_leads_where_it_should_or_is_refused,
			    VBD_STATE_NONE, NR_VBD_STATES);
	tcase_add_test(tcase, every_disk_can_be_closed);
	tcase_add_test(tcase, a_failed_resume_can_be_tried_again);
	tcase_add_loop_test(tcase, the_word_is_upstreams, 0,
			    (int)(sizeof(words) / sizeof(words[0])));
	tcase_add_test(tcase, every_state_has_a_name_of_its_own);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
