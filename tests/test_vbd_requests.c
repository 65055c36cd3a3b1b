/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vbd from end to end, in one process: what a guest can ask of a disk, and
 * what becomes of one that breaks the rules.
 */
#include <errno.h>
#include <string.h>
#include "tests/rig.h"
#include "tests/stand.h"

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

int main(void)
{
	Suite *s = suite_create("vbd_requests");
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
	return rig_run(s);
}
