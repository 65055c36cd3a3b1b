/* SPDX-License-Identifier: BSD-3-Clause */
/* A vbd from end to end, in one process: what guests and toolstack rely on. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "poll/clock.h"
#include "tests/stand.h"
#include "tests/scratch.h"

#define MIB (1024 * 1024)

static void fill(uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(seed * 131 + i * 7 + i / 512);
}

/* ---- requests ---- */

START_TEST(every_abi_and_order_reads_back_what_it_wrote)
{
	uint8_t out[11 * 4096], in[11 * 4096];
	struct stand stand;

	stand_open(&stand, "ram:8m", 0, (enum abi)(_i % NR_ABIS),
		   (unsigned)_i / NR_ABIS);
	ck_assert_int_eq(stand_connect(&stand), 0);
	for (unsigned i = 0; i < 50; i++) {
		size_t len = 512 * (1 + (i * 37) % 88);
		uint64_t sector = (i * 977) % (8 * MIB / 512 - 88);

		fill(out, len, i);
		ck_assert_int_eq(
			stand_io(&stand, BLKIF_OP_WRITE, sector, len, out), 0);
		ck_assert_int_eq(
			stand_io(&stand, BLKIF_OP_READ, sector, len, in), 0);
		ck_assert_mem_eq(in, out, len);
	}
	stand_close(&stand);
}
END_TEST

START_TEST(unknown_operations_are_not_supported_and_harm_nothing)
{
	uint8_t data[512];
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	for (unsigned op = BLKIF_OP_INDIRECT; op < 256; op++)
		ck_assert_msg(stand_io(&stand, (uint8_t)op, 0, 512, NULL) ==
				      BLKIF_RSP_EOPNOTSUPP,
			      "operation %u", op);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_RESERVED_1, 0, 512, NULL),
			 BLKIF_RSP_EOPNOTSUPP);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 512, data), 0);
	stand_close(&stand);
}
END_TEST

START_TEST(flush_and_barrier_work_with_and_without_data)
{
	static const uint8_t ops[] = { BLKIF_OP_FLUSH_DISKCACHE,
				       BLKIF_OP_WRITE_BARRIER };
	uint8_t out[8192], in[8192];
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_X86_64, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(stand_io(&stand, ops[i], 0, 0, NULL), 0);
		/* where an empty one points does not matter */
		ck_assert_int_eq(stand_io(&stand, ops[i], UINT64_MAX, 0, NULL),
				 0);
		fill(out, sizeof(out), i);
		ck_assert_int_eq(stand_io(&stand, ops[i], 16, sizeof(out), out),
				 0);
		ck_assert_int_eq(
			stand_io(&stand, BLKIF_OP_READ, 16, sizeof(in), in), 0);
		ck_assert_mem_eq(in, out, sizeof(in));
	}
	stand_close(&stand);
}
END_TEST

START_TEST(a_request_outside_of_the_disk_is_an_error_and_moves_no_data)
{
	static const uint64_t sectors[] = { 2048,	2047,
					    UINT64_MAX, UINT64_MAX >> 9,
					    1ull << 55, (1ull << 55) - 1,
					    1ull << 63 };
	uint8_t data[1024], want[1024];
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	memset(want, 0xa5, sizeof(want));
	for (unsigned i = 0; i < sizeof(sectors) / sizeof(sectors[0]); i++) {
		int tag = frontend_next_tag(stand.f);

		memset(frontend_data(stand.f, (unsigned)tag), 0xa5, 1024);
		ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, sectors[i],
					  1024, data),
				 BLKIF_RSP_ERROR);
		ck_assert_mem_eq(data, want, sizeof(data));
		ck_assert_int_eq(stand_io(&stand, BLKIF_OP_WRITE, sectors[i],
					  1024, data),
				 BLKIF_RSP_ERROR);
	}
	stand_close(&stand);
}
END_TEST

START_TEST(a_failed_read_leaves_the_guest_page_alone)
{
	uint8_t data[4096], want[4096];
	struct stand stand;

	stand_open(&stand, "fault:op=read,every=1,err=EIO;ram:1m", 0,
		   ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	memset(want, 0xa5, sizeof(want));
	memset(frontend_data(stand.f, (unsigned)frontend_next_tag(stand.f)),
	       0xa5, 4096);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 4096, data),
			 BLKIF_RSP_ERROR);
	ck_assert_mem_eq(data, want, sizeof(data));
	stand_close(&stand);
}
END_TEST

START_TEST(a_read_only_disk_refuses_all_that_writes_but_flushes)
{
	uint8_t data[4096] = { 1 }, in[4096], zero[4096] = { 0 };
	struct stand stand;

	stand_open(&stand, "ram:1m", DRIVER_RDONLY, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_WRITE, 0, 4096, data),
			 BLKIF_RSP_ERROR);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_WRITE_BARRIER, 0, 4096,
				  data),
			 BLKIF_RSP_ERROR);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_FLUSH_DISKCACHE, 0, 4096,
				  data),
			 BLKIF_RSP_ERROR);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_DISCARD, 0, 4096, NULL),
			 BLKIF_RSP_ERROR);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_FLUSH_DISKCACHE, 0, 0, NULL),
			 0);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_WRITE_BARRIER, 0, 0, NULL),
			 0);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 4096, in), 0);
	ck_assert_mem_eq(in, zero, sizeof(in));
	stand_close(&stand);
}
END_TEST

START_TEST(a_failed_flush_fails_every_later_one_until_reopened)
{
	struct stand stand;
	uint8_t op = _i ? BLKIF_OP_WRITE_BARRIER : BLKIF_OP_FLUSH_DISKCACHE;

	stand_open(&stand, "fault:op=flush,nth=2,err=EIO;ram:1m", 0, ABI_NATIVE,
		   0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	ck_assert_int_eq(stand_io(&stand, op, 0, 0, NULL), 0);
	ck_assert_int_eq(stand_io(&stand, op, 0, 0, NULL), BLKIF_RSP_ERROR);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(stand_io(&stand, op, 0, 0, NULL),
				 BLKIF_RSP_ERROR);
	ck_assert_int_eq(stand_pause(&stand), -EIO);
	ck_assert_int_eq(stand_resume(&stand, NULL, false), 0);
	stand_run(&stand, 1);
	ck_assert_int_eq(stand_io(&stand, op, 0, 0, NULL), 0);
	stand_close(&stand);
}
END_TEST

START_TEST(a_transient_error_is_tried_again_and_never_seen)
{
	static const char *const specs[] = {
		"fault:op=flush,nth=1,err=EAGAIN;ram:1m",
		"fault:op=flush,nth=1,err=EBUSY;ram:1m",
		"fault:op=flush,nth=1,err=ENOMEM;ram:1m",
		"fault:op=write,every=2,err=EAGAIN;ram:1m",
		"fault:op=read,every=2,err=EINTR;ram:1m",
	};
	uint8_t data[4096], in[4096];
	struct stand stand;

	stand_open(&stand, specs[_i], 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	for (unsigned i = 0; i < 6; i++) {
		fill(data, sizeof(data), i);
		ck_assert_int_eq(
			stand_io(&stand, BLKIF_OP_WRITE, 8, 4096, data), 0);
		ck_assert_int_eq(stand_io(&stand, BLKIF_OP_FLUSH_DISKCACHE, 0,
					  0, NULL),
				 0);
		ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 8, 4096, in),
				 0);
		ck_assert_mem_eq(in, data, sizeof(in));
	}
	stand_close(&stand);
}
END_TEST

/* The one before the image is closed as well as a guest's. */
START_TEST(a_refused_flush_is_tried_again_before_the_image_is_closed)
{
	struct stand stand;

	stand_open(&stand, "fault:op=flush,nth=1,err=EAGAIN;ram:1m", 0,
		   ABI_NATIVE, 0);
	if (_i)
		ck_assert_int_eq(stand_vbd_close(&stand, false), 0);
	else
		ck_assert_int_eq(stand_pause(&stand), 0);
	stand_close(&stand);
}
END_TEST

START_TEST(close_by_force_waits_for_no_flush)
{
	struct stand_reply reply;
	struct stand stand;

	stand_open(&stand, "fault:op=flush,err=EAGAIN;ram:1m", 0, ABI_NATIVE,
		   0);
	stand_reply_init(&stand, &reply);
	vbd_pause(stand.vbd, &reply.reply);
	stand_run(&stand, 50);
	ck_assert(!reply.done);
	ck_assert_int_eq(stand_vbd_close(&stand, true), 0);
	ck_assert_int_eq(reply.err, -ESHUTDOWN);
	stand_close(&stand);
}
END_TEST

/* ---- a guest that breaks the rules ---- */

START_TEST(an_overrun_breaks_the_ring_and_not_the_disk)
{
	uint32_t *req_prod;
	uint8_t data[512];
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 512, data), 0);
	req_prod = frontend_sring(stand.f);
	__atomic_store_n(req_prod, *req_prod + 33, __ATOMIC_RELEASE);
	frontend_kick(stand.f);
	for (unsigned i = 0; i < 1000 && !stand.events[VBD_RING_BROKEN]; i++)
		stand_run(&stand, 10);
	ck_assert_uint_eq(stand.events[VBD_RING_BROKEN], 1);
	/* the toolstack does not depend on the guest */
	ck_assert_int_eq(stand_pause(&stand), 0);
	ck_assert_int_eq(stand_resume(&stand, NULL, false), 0);
	ck_assert_int_eq(stand_disconnect(&stand), 0);
	frontend_reset(stand.f);
	ck_assert_int_eq(stand_connect(&stand), 0);
	stand_run(&stand, 10);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 512, data), 0);
	stand_close(&stand);
}
END_TEST

START_TEST(a_broken_ring_can_be_closed)
{
	uint32_t *req_prod;
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	req_prod = frontend_sring(stand.f);
	__atomic_store_n(req_prod, UINT32_MAX, __ATOMIC_RELEASE);
	frontend_kick(stand.f);
	for (unsigned i = 0; i < 1000 && !stand.events[VBD_RING_BROKEN]; i++)
		stand_run(&stand, 10);
	ck_assert_int_eq(stand_vbd_close(&stand, _i), 0);
	stand_close(&stand);
}
END_TEST

START_TEST(a_bad_grant_fails_its_request_and_no_other)
{
	struct frontend_request r;
	struct frontend_response rsp;
	uint8_t *slot;
	uint32_t bad = _i ? 0 : 0xfffffff0u;
	unsigned ok = 0, failed = 0;
	struct stand stand;

	stand_open(&stand, "ram:1m", 0, ABI_NATIVE, 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	for (unsigned i = 0; i < 4; i++) {
		frontend_fill(&r, i & 1 ? BLKIF_OP_WRITE : BLKIF_OP_READ, 0,
			      8192);
		ck_assert_int_ge(frontend_queue(stand.f, &r), 0);
	}
	/* second segment's gref of the first two slots */
	slot = (uint8_t *)frontend_sring(stand.f) + 64;
	memcpy(slot + 32, &bad, sizeof(bad));
	memcpy(slot + 112 + 32, &bad, sizeof(bad));
	frontend_push(stand.f);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(
			frontend_wait(stand.f, 10 * STAND_SECOND, &rsp), 1);
		if (rsp.status == BLKIF_RSP_OKAY)
			ok++;
		else
			failed++;
	}
	ck_assert_uint_eq(ok, 2);
	ck_assert_uint_eq(failed, 2);
	stand_close(&stand);
}
END_TEST

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
	ck_assert_uint_eq(info.bytes, 2 * MIB);
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

/* ---- polling ---- */

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

static Suite *suite(void)
{
	Suite *s = suite_create("vbd");
	TCase *t = tcase_create("requests");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, every_abi_and_order_reads_back_what_it_wrote, 0,
			    5 * NR_ABIS);
	tcase_add_test(t,
		       unknown_operations_are_not_supported_and_harm_nothing);
	tcase_add_test(t, flush_and_barrier_work_with_and_without_data);
	tcase_add_test(
		t, a_request_outside_of_the_disk_is_an_error_and_moves_no_data);
	tcase_add_test(t, a_failed_read_leaves_the_guest_page_alone);
	tcase_add_test(t, a_read_only_disk_refuses_all_that_writes_but_flushes);
	tcase_add_loop_test(
		t, a_failed_flush_fails_every_later_one_until_reopened, 0, 2);
	tcase_add_loop_test(t, a_transient_error_is_tried_again_and_never_seen,
			    0, 5);
	tcase_add_loop_test(
		t, a_refused_flush_is_tried_again_before_the_image_is_closed, 0,
		2);
	tcase_add_test(t, close_by_force_waits_for_no_flush);
	suite_add_tcase(s, t);
	t = tcase_create("rules");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, an_overrun_breaks_the_ring_and_not_the_disk);
	tcase_add_loop_test(t, a_broken_ring_can_be_closed, 0, 2);
	tcase_add_loop_test(t, a_bad_grant_fails_its_request_and_no_other, 0,
			    2);
	suite_add_tcase(s, t);
	t = tcase_create("connect");
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
	t = tcase_create("polling");
	tcase_set_timeout(t, 60);
	tcase_add_test(
		t,
		tap_ctl_holds_until_default_and_of_the_others_the_newest_counts);
	tcase_add_test(t, a_retune_acts_within_ten_milliseconds);
	tcase_add_test(t, a_spinning_ring_needs_no_events);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	SRunner *runner;
	int failed;

	scratch_open();
	runner = srunner_create(suite());
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
