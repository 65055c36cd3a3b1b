/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a guest may ask for and what not: every value of every small field, the
 * edges of the wide ones, and that parse writes nothing but its result.
 */
#include <check.h>
#include <errno.h>
#include <string.h>
#include "ring/parse.h"

#define ID UINT64_C(0x8786858483828180)
#define SECTORS_MAX (UINT64_MAX >> 9) /* the last sector that has an offset */

enum { READ, WRITE, BARRIER, FLUSH, RESERVED, DISCARD, INDIRECT };

/* A result between two fences of poison. */
struct fenced {
	uint8_t before[64];
	struct parsed p;
	uint8_t after[64];
};

static int parse_fenced(const union abi_slot *slot, struct fenced *f)
{
	union abi_slot copy = *slot;
	uint8_t poison[64];
	int err;

	memset(poison, 0xA5, sizeof(poison));
	memset(f, 0xA5, sizeof(*f));
	err = parse_slot(slot, &f->p);
	/* plain ifs: every ck_assert that holds is a system call */
	if (memcmp(f->before, poison, sizeof(poison)) ||
	    memcmp(f->after, poison, sizeof(poison)))
		ck_abort_msg("wrote beyond the result");
	if (memcmp(slot, &copy, sizeof(copy)))
		ck_abort_msg("wrote into the slot");
	if (f->p.id != copy.rw.id || f->p.wire_op != copy.rw.operation)
		ck_abort_msg("%d, and cannot be answered", err);
	return err;
}

static union abi_slot rw(uint8_t op, uint8_t nr_segments, uint64_t sector)
{
	union abi_slot slot;

	memset(&slot, 0xEE, sizeof(slot)); /* unused segments are rubbish */
	slot.rw.operation = op;
	slot.rw.nr_segments = nr_segments;
	slot.rw.handle = 0x1615;
	slot.rw.id = ID;
	slot.rw.sector_number = sector;
	for (unsigned i = 0; i < nr_segments && i < 11; i++)
		slot.rw.seg[i] = (struct blkif_request_segment){
			.gref = 100 + i, .first_sect = 0, .last_sect = 7
		};
	return slot;
}

static union abi_slot discard(uint64_t sector, uint64_t nr_sectors)
{
	union abi_slot slot;

	memset(&slot, 0xEE, sizeof(slot));
	slot.discard.operation = DISCARD;
	slot.discard.flag = 0;
	slot.discard.id = ID;
	slot.discard.sector_number = sector;
	slot.discard.nr_sectors = nr_sectors;
	return slot;
}

/* ---- what each operation becomes ---- */

static const struct {
	const char *why;
	uint8_t op, nr_segments;
	int err;
	bool flush_before, flush_after, barrier, has_data;
	enum io_op io;
} meanings[] = {
	{ "read", READ, 2, 0, .has_data = true, .io = IO_READ },
	{ "write", WRITE, 2, 0, .has_data = true, .io = IO_WRITE },
	{ "empty read", READ, 0, .err = -EINVAL },
	{ "empty write", WRITE, 0, .err = -EINVAL },
	{ "flush", FLUSH, 0, 0, .flush_before = true },
	{ "flush with data", FLUSH, 2, 0, .flush_before = true,
	  .flush_after = true, .has_data = true, .io = IO_WRITE },
	{ "barrier", BARRIER, 0, 0, .flush_before = true, .barrier = true },
	{ "barrier with data", BARRIER, 2, 0, .flush_before = true,
	  .flush_after = true, .barrier = true, .has_data = true,
	  .io = IO_WRITE },
	{ "reserved", RESERVED, 2, .err = -EOPNOTSUPP },
	{ "indirect, not offered", INDIRECT, 2, .err = -EOPNOTSUPP },
};

START_TEST(each_operation_means_what_blkif_says)
{
	union abi_slot slot =
		rw(meanings[_i].op, meanings[_i].nr_segments, 1000);
	const char *why = meanings[_i].why;
	struct fenced f;
	int err = parse_fenced(&slot, &f);

	ck_assert_msg(err == meanings[_i].err, "%s: %s", why, strerror(-err));
	if (err)
		return;
	ck_assert_msg(f.p.flush_before == meanings[_i].flush_before, "%s", why);
	ck_assert_msg(f.p.flush_after == meanings[_i].flush_after, "%s", why);
	ck_assert_msg(f.p.barrier == meanings[_i].barrier, "%s", why);
	ck_assert_msg(f.p.has_data == meanings[_i].has_data, "%s", why);
	ck_assert_uint_eq(f.p.nr_segments, meanings[_i].nr_segments);
	ck_assert_uint_eq(f.p.len, meanings[_i].nr_segments * 4096u);
	if (!f.p.has_data)
		return;
	ck_assert_msg(f.p.op == meanings[_i].io, "%s", why);
	ck_assert_uint_eq(f.p.offset, 1000 * 512);
	ck_assert_uint_eq(f.p.segments[1].gref, 101);
}
END_TEST

START_TEST(an_empty_flush_names_no_place)
{
	static const uint8_t ops[] = { FLUSH, BARRIER };
	union abi_slot slot = rw(ops[_i], 0, UINT64_MAX);
	struct fenced f;

	ck_assert_int_eq(parse_fenced(&slot, &f), 0);
	ck_assert(f.p.flush_before && !f.p.flush_after && !f.p.has_data);
	ck_assert_uint_eq(f.p.len, 0);
}
END_TEST

/* ---- sweeps ---- */

START_TEST(no_other_operation_is_known)
{
	for (unsigned op = 0; op < 256; op++) {
		union abi_slot slot = rw((uint8_t)op, 1, 0);
		struct fenced f;
		int err;

		if (op == DISCARD)
			slot = discard(0, 1);
		err = parse_fenced(&slot, &f);
		ck_assert_msg(
			err == (op <= FLUSH || op == DISCARD ? 0 : -EOPNOTSUPP),
			"operation %u: %d", op, err);
	}
}
END_TEST

/* What lies behind the slot looks as good as what is in it. */
START_TEST(one_to_eleven_segments)
{
	static struct {
		union abi_slot slot;
		struct blkif_request_segment more[255 - 11];
	} in;
	static struct {
		struct fenced f;
		uint8_t room[sizeof(struct parse_segment) * 255];
	} out;
	bool may_be_empty = _i == FLUSH || _i == BARRIER;

	for (unsigned i = 0; i < 255 - 11; i++)
		in.more[i].last_sect = 7;
	for (unsigned n = 0; n < 256; n++) {
		bool good = n <= 11 && (n || may_be_empty);
		int err;

		in.slot = rw((uint8_t)_i, (uint8_t)n, 0);
		err = parse_fenced(&in.slot, &out.f);
		if (err != (good ? 0 : -EINVAL))
			ck_abort_msg("operation %d with %u segments: %d", _i, n,
				     err);
		ck_assert_uint_eq(out.f.p.nr_segments, good ? n : 0);
		ck_assert_int_eq(out.f.p.has_data, good && n);
	}
}
END_TEST

/* @_i: which of the segments is the strange one. */
START_TEST(sectors_of_a_segment_lie_in_order_within_its_page)
{
	for (unsigned both = 0; both < 65536; both++) {
		union abi_slot slot = rw(WRITE, 11, 0);
		unsigned first = both >> 8, last = both & 255;
		bool good = first <= last && last <= 7;
		struct parse_segment *seg;
		struct fenced f;
		int err;

		slot.rw.seg[_i].first_sect = (uint8_t)first;
		slot.rw.seg[_i].last_sect = (uint8_t)last;
		err = parse_fenced(&slot, &f);
		if (err != (good ? 0 : -EINVAL))
			ck_abort_msg("%u to %u: %d", first, last, err);
		if (!good)
			continue;
		seg = &f.p.segments[_i];
		if (seg->offset != first * 512 ||
		    seg->len != (last - first + 1) * 512 ||
		    seg->gref != 100 + (unsigned)_i ||
		    f.p.len != 10u * 4096 + seg->len)
			ck_abort_msg("%u to %u: %u at %u", first, last,
				     seg->len, seg->offset);
	}
}
END_TEST

START_TEST(segments_that_are_not_used_are_not_judged)
{
	for (unsigned n = 1; n < 11; n++) {
		union abi_slot slot = rw(READ, (uint8_t)n, 0);
		struct fenced f;

		slot.rw.seg[n].first_sect = 9;
		slot.rw.seg[n].last_sect = 3;
		ck_assert_int_eq(parse_fenced(&slot, &f), 0);
	}
}
END_TEST

/* ---- the ends of 64 bits ---- */

static const struct {
	const char *why;
	uint64_t sector, nr_sectors;
	int err;
} places[] = {
	{ "first", 0, 1, 0 },
	{ "beyond 4 GiB", UINT64_C(1) << 32, 8, 0 },
	{ "the last offset there is", SECTORS_MAX, 1, 0 },
	{ "beyond 2^64 bytes", SECTORS_MAX + 1, 1, -EINVAL },
	{ "2^64 bytes and one sector", SECTORS_MAX + 2, 1, -EINVAL },
	{ "sign bit", UINT64_C(1) << 63, 1, -EINVAL },
	{ "last sector number", UINT64_MAX, 1, -EINVAL },
	{ "nothing", 5, 0, -EINVAL },
	{ "longest", 0, SECTORS_MAX, 0 },
	{ "too long", 0, SECTORS_MAX + 1, -EINVAL },
	{ "wraps to nothing", 0, UINT64_C(1) << 55, -EINVAL },
	{ "wraps to one sector", 0, (UINT64_C(1) << 55) + 1, -EINVAL },
	{ "longest number", 0, UINT64_MAX, -EINVAL },
	{ "both at their ends", SECTORS_MAX, SECTORS_MAX, 0 },
	{ "both beyond", UINT64_MAX, UINT64_MAX, -EINVAL },
};

START_TEST(no_place_wraps_round)
{
	union abi_slot slot;
	struct fenced f;
	int err;

	for (uint8_t op = READ; op <= FLUSH; op++) {
		bool good = places[_i].sector <= SECTORS_MAX;

		slot = rw(op, 11, places[_i].sector);
		err = parse_fenced(&slot, &f);
		ck_assert_msg(err == (good ? 0 : -EINVAL),
			      "operation %u, %s: %d", op, places[_i].why, err);
		if (good)
			ck_assert_uint_eq(f.p.offset / 512, places[_i].sector);
	}
	slot = discard(places[_i].sector, places[_i].nr_sectors);
	err = parse_fenced(&slot, &f);
	ck_assert_msg(err == places[_i].err, "discard, %s: %d", places[_i].why,
		      err);
	if (err)
		return;
	ck_assert(f.p.has_data && f.p.op == IO_DISCARD);
	ck_assert(!f.p.flush_before && !f.p.flush_after && !f.p.barrier);
	ck_assert_uint_eq(f.p.nr_segments, 0);
	ck_assert_uint_eq(f.p.offset / 512, places[_i].sector);
	ck_assert_uint_eq(f.p.len / 512, places[_i].nr_sectors);
}
END_TEST

START_TEST(a_secure_discard_is_a_discard)
{
	union abi_slot slot = discard(8, 8);
	struct fenced f;

	for (unsigned flag = 0; flag < 256; flag++) {
		slot.discard.flag = (uint8_t)flag;
		ck_assert_int_eq(parse_fenced(&slot, &f), 0);
		ck_assert_uint_eq(f.p.len, 4096);
	}
}
END_TEST

/* Nothing of the last request shows in the next. */
START_TEST(a_result_owes_nothing_to_what_was_there)
{
	union abi_slot slot = rw((uint8_t)_i, 3, 77);
	struct parsed a, b;

	if (_i == DISCARD)
		slot = discard(77, 8);
	memset(&a, 0x00, sizeof(a));
	memset(&b, 0xFF, sizeof(b));
	ck_assert_int_eq(parse_slot(&slot, &a), parse_slot(&slot, &b));
	ck_assert_uint_eq(a.flush_before, b.flush_before);
	ck_assert_uint_eq(a.flush_after, b.flush_after);
	ck_assert_uint_eq(a.barrier, b.barrier);
	ck_assert_uint_eq(a.has_data, b.has_data);
	ck_assert_uint_eq(a.op, b.op);
	ck_assert_uint_eq(a.offset, b.offset);
	ck_assert_uint_eq(a.len, b.len);
	ck_assert_uint_eq(a.nr_segments, b.nr_segments);
	ck_assert_mem_eq(a.segments, b.segments,
			 a.nr_segments * sizeof(a.segments[0]));
}
END_TEST

START_TEST(what_was_refused_has_no_data)
{
	static const uint64_t bad[][2] = { { 0, 0 }, { UINT64_MAX, 1 } };
	union abi_slot slot = discard(bad[_i][0], bad[_i][1]);
	struct fenced f;

	ck_assert_int_eq(parse_fenced(&slot, &f), -EINVAL);
	ck_assert(!f.p.has_data);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("parse");
	TCase *tcase = tcase_create("parse");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, each_operation_means_what_blkif_says, 0,
			    (int)(sizeof(meanings) / sizeof(meanings[0])));
	tcase_add_loop_test(tcase, an_empty_flush_names_no_place, 0, 2);
	tcase_add_test(tcase, no_other_operation_is_known);
	tcase_add_loop_test(tcase, one_to_eleven_segments, READ, FLUSH + 1);
	tcase_add_loop_test(tcase,
			    sectors_of_a_segment_lie_in_order_within_its_page,
			    0, 11);
	tcase_add_test(tcase, segments_that_are_not_used_are_not_judged);
	tcase_add_loop_test(tcase, no_place_wraps_round, 0,
			    (int)(sizeof(places) / sizeof(places[0])));
	tcase_add_test(tcase, a_secure_discard_is_a_discard);
	tcase_add_loop_test(tcase, a_result_owes_nothing_to_what_was_there,
			    READ, INDIRECT + 1);
	tcase_add_loop_test(tcase, what_was_refused_has_no_data, 0, 2);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
