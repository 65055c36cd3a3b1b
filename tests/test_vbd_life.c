/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vbd from end to end, in one process: guests come and go, and the toolstack
 * pauses, resumes and closes, with I/O in flight.
 */
#include <errno.h>
#include <string.h>
#include "tests/rig.h"
#include "tests/stand.h"

/* ---- connect and disconnect ---- */

static void write_many(struct stand *stand, unsigned n, uint8_t byte)
{
	struct frontend_request r;

	for (unsigned i = 0; i < n; i++) {
		int tag = frontend_next_tag(stand->f);

		frontend_fill(&r, BLKIF_OP_WRITE, i * 8, 4096);
		memset(frontend_data(stand->f, (unsigned)tag), byte, 4096);
		ck_assert_int_eq(frontend_queue(stand->f, &r), tag);
	}
	frontend_push(stand->f);
}

START_TEST(no_write_of_an_old_ring_lands_after_one_of_the_new)
{
	struct frontend_response rsp;
	uint8_t data[4096], want[4096];
	struct stand stand;

	stand_open(&stand, "delay:us=300000,op=write;ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	write_many(&stand, 32, 0x11);
	stand_run(&stand, 50); /* they are taken */
	ck_assert_int_eq(stand_disconnect(&stand), 0);
	frontend_reset(stand.f);
	ck_assert_int_eq(stand_connect(&stand), 0);
	ck_assert_int_eq(stand_connect(&stand), -EBUSY); /* a third */
	write_many(&stand, 32, 0x22);
	stand_run(&stand, 1000);
	for (unsigned i = 0; i < 32; i++) {
		ck_assert_int_eq(
			frontend_wait(stand.f, 10 * STAND_SECOND, &rsp), 1);
		ck_assert_int_eq(rsp.status, 0);
	}
	memset(want, 0x22, sizeof(want));
	for (unsigned i = 0; i < 32; i++) {
		ck_assert_int_eq(
			stand_io(&stand, BLKIF_OP_READ, i * 8, 4096, data), 0);
		ck_assert_mem_eq(data, want, sizeof(want));
	}
	stand_close(&stand);
}
END_TEST

START_TEST(connected_twice_is_ealready_and_another_device_is_not)
{
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	ck_assert_int_eq(stand_connect(&stand), -EALREADY);
	/* Xen: two backends cannot bind one event channel */
	ck_assert_int_eq(stand_connect_as(&stand, stand.domid,
					  STAND_DEVID + 16),
			 stand_on_xen() ? -EINVAL : 0);
	ck_assert_int_eq(stand_disconnect(&stand), 0);
	stand_run(&stand, 10);
	ck_assert_int_eq(stand_disconnect(&stand), -ENODEV);
	stand_close(&stand);
}
END_TEST

START_TEST(bad_connects_leave_nothing_behind)
{
	struct stand stand;
	struct vbd_connect connect;
	unsigned before;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	before = scratch_descriptors();
	connect = (struct vbd_connect){ .domid = stand.domid,
					.devid = 2,
					.guest = stand.guest,
					.port = 1,
					.nr_refs = 3 };
	ck_assert_int_eq(vbd_connect(stand.vbd, &connect), -EINVAL);
	connect.nr_refs = 32;
	ck_assert_int_eq(vbd_connect(stand.vbd, &connect), -EINVAL);
	connect.nr_refs = 1;
	connect.refs[0] = 0x7fffffff;
	ck_assert_int_eq(vbd_connect(stand.vbd, &connect), -EINVAL);
	connect.refs[0] = frontend_refs(stand.f)[0];
	connect.port = 999;
	ck_assert_int_eq(vbd_connect(stand.vbd, &connect), -EINVAL);
	connect.guest = "local:/nowhere/at/all";
	ck_assert_int_eq(vbd_connect(stand.vbd, &connect), -ENOENT);
	/* the frontend lets go of its end a moment later */
	for (unsigned i = 0; i < 100 && scratch_descriptors() > before; i++)
		stand_run(&stand, 10);
	ck_assert_uint_eq(scratch_descriptors(), before);
	stand_close(&stand);
}
END_TEST

START_TEST(a_dead_domain_is_disconnected)
{
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	frontend_close(stand.f);
	stand_run(&stand, 100);
	/* on Xen nobody says so but tapback, by this */
	if (stand_on_xen()) {
		ck_assert_int_eq(stand_disconnect(&stand), 0);
		stand_run(&stand, 100);
	}
	ck_assert_int_eq(frontend_open(&stand.options, &stand.f), 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 512, NULL), 0);
	stand_close(&stand);
}
END_TEST

/* ---- the toolstack ---- */

START_TEST(pause_answers_all_it_took_and_takes_no_more)
{
	struct frontend_response rsp;
	struct stand_reply reply;
	unsigned answered = 0;
	struct stand stand;

	stand_open(&stand, "delay:us=50000;ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	write_many(&stand, 20, 1);
	stand_run(&stand, 20);
	stand_reply_init(&stand, &reply);
	vbd_pause(stand.vbd, &reply.reply);
	ck_assert_uint_eq(vbd_state_word(stand.vbd), 0x14);
	ck_assert_int_eq(stand_await(&stand, &reply), 0);
	ck_assert_uint_eq(vbd_state_word(stand.vbd), 0x2a);
	while (frontend_take(stand.f, &rsp) == 1)
		answered++;
	ck_assert_uint_eq(answered, 20);
	write_many(&stand, 5, 2);
	stand_run(&stand, 200);
	ck_assert_int_eq(frontend_take(stand.f, &rsp), 0);
	ck_assert_int_eq(stand_pause(&stand), 0); /* again */
	ck_assert_int_eq(stand_resume(&stand, NULL, false), 0);
	stand_run(&stand, 200);
	for (answered = 0; frontend_take(stand.f, &rsp) == 1; answered++)
		ck_assert_int_eq(rsp.status, 0);
	ck_assert_uint_eq(answered, 5);
	ck_assert_uint_eq(vbd_state_word(stand.vbd), 0);
	stand_close(&stand);
}
END_TEST

START_TEST(a_ring_connected_while_paused_waits_for_resume)
{
	uint8_t data[512];
	struct frontend_request r;
	struct frontend_response rsp;
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_pause(&stand), 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	frontend_fill(&r, BLKIF_OP_READ, 0, 512);
	ck_assert_int_ge(frontend_queue(stand.f, &r), 0);
	frontend_push(stand.f);
	frontend_kick(stand.f);
	stand_run(&stand, 100);
	ck_assert_int_eq(frontend_take(stand.f, &rsp), 0);
	ck_assert_int_eq(stand_resume(&stand, NULL, false), 0);
	stand_run(&stand, 10);
	ck_assert_int_eq(frontend_wait(stand.f, STAND_SECOND, &rsp), 1);
	ck_assert_int_eq(rsp.status, 0);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 512, data), 0);
	stand_close(&stand);
}
END_TEST

START_TEST(resume_takes_a_larger_image_and_refuses_a_smaller)
{
	struct vbd_disk_info info;
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_resume(&stand, NULL, false), -EINVAL);
	ck_assert_int_eq(stand_pause(&stand), 0);
	ck_assert_int_eq(stand_resume(&stand, "ram:512k", false), -EMEDIUMTYPE);
	ck_assert_uint_eq(vbd_state_word(stand.vbd), 0x22a);
	ck_assert_int_eq(stand_resume(&stand, "ram:2m", false), 0);
	ck_assert_uint_eq(vbd_state_word(stand.vbd), 0);
	ck_assert_uint_eq(stand.events[VBD_RESIZED], 1);
	vbd_disk_info(stand.vbd, &info);
	ck_assert_uint_eq(info.bytes, 2 << 20);
	ck_assert_int_eq(stand_pause(&stand), 0);
	ck_assert_int_eq(stand_resume(&stand, "ram:1m", true), 0);
	stand_close(&stand);
}
END_TEST

START_TEST(close_by_force_answers_at_once_while_io_is_stuck)
{
	struct vbd_open_options options = { 0 };
	struct stand_reply reply;
	struct stand stand;

	stand_open(&stand, "delay:us=400000;ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	write_many(&stand, 8, 1);
	stand_run(&stand, 20);
	stand_reply_init(&stand, &reply);
	if (_i) { /* also when a close, or a pause, is stuck already */
		if (_i == 1)
			vbd_close(stand.vbd, false, &reply.reply);
		else
			vbd_pause(stand.vbd, &reply.reply);
		stand_run(&stand, 20);
		ck_assert(!reply.done);
	}
	ck_assert_int_eq(stand_vbd_close(&stand, true), 0);
	if (_i)
		ck_assert(reply.done);
	ck_assert_uint_eq(vbd_state_word(stand.vbd), 0x2);
	ck_assert_ptr_null(vbd_spec(stand.vbd));
	/* not before the old I/O has ended */
	ck_assert_int_eq(vbd_open(stand.vbd, "ram:1m", &options), -EBUSY);
	stand_run(&stand, 1000);
	ck_assert_int_eq(vbd_open(stand.vbd, "ram:1m", &options), 0);
	stand_close(&stand);
}
END_TEST

START_TEST(close_waits_for_io_and_answers_twice_asked)
{
	struct stand_reply reply;
	struct stand stand;

	stand_open(&stand, "delay:us=200000;ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	write_many(&stand, 8, 1);
	stand_run(&stand, 20);
	stand_reply_init(&stand, &reply);
	vbd_close(stand.vbd, false, &reply.reply);
	stand_run(&stand, 20);
	ck_assert(!reply.done);
	ck_assert_int_eq(stand_vbd_close(&stand, false), 0);
	ck_assert(reply.done);
	ck_assert_int_eq(stand_vbd_close(&stand, false), 0);
	stand_close(&stand);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("vbd_life");
	TCase *t = tcase_create("connect");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, no_write_of_an_old_ring_lands_after_one_of_the_new);
	tcase_add_test(t,
		       connected_twice_is_ealready_and_another_device_is_not);
	tcase_add_test(t, bad_connects_leave_nothing_behind);
	tcase_add_test(t, a_dead_domain_is_disconnected);
	suite_add_tcase(s, t);
	t = tcase_create("toolstack");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, pause_answers_all_it_took_and_takes_no_more);
	tcase_add_test(t, a_ring_connected_while_paused_waits_for_resume);
	tcase_add_test(t, resume_takes_a_larger_image_and_refuses_a_smaller);
	tcase_add_loop_test(t, close_by_force_answers_at_once_while_io_is_stuck,
			    0, 3);
	tcase_add_test(t, close_waits_for_io_and_answers_twice_asked);
	suite_add_tcase(s, t);
	return rig_run(s);
}
