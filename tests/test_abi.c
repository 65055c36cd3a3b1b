/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots as guests write them, by offsets written out here: no structure of
 * blkif.h lends the tests its own opinion of a layout.
 */
#include <check.h>
#include <errno.h>
#include <string.h>
#include "ring/abi.h"

#define POISON 0xA5

enum { SLOT_MAX = 112 };

/* Where the fields lie; native is x86_64 on every 64-bit machine. */
static const struct layout {
	const char *name;
	enum abi abi;
	size_t slot, response;
	size_t id, sector, segments; /* discard: nr_sectors for segments */
} layouts[] = {
	{ "native", ABI_NATIVE, 112, 16, 8, 16, 24 },
	{ "x86_32", ABI_X86_32, 108, 12, 4, 12, 20 },
	{ "x86_64", ABI_X86_64, 112, 16, 8, 16, 24 },
};
#define NR_LAYOUTS ((int)(sizeof(layouts) / sizeof(layouts[0])))

/* Little-endian, whatever we run on. */
static void put(uint8_t *at, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

START_TEST(a_ring_has_as_many_slots_in_every_abi)
{
	static const unsigned slots[] = { 32, 64, 128, 256, 512 };

	ck_assert_uint_eq(abi_slot_size(layouts[_i].abi), layouts[_i].slot);
	for (unsigned order = 0; order < 5; order++)
		ck_assert_uint_eq(abi_ring_slots(layouts[_i].abi, 1u << order),
				  slots[order]);
}
END_TEST

START_TEST(the_last_slot_ends_within_the_pages)
{
	for (unsigned pages = 1; pages <= 16; pages++) {
		size_t n = abi_ring_slots(layouts[_i].abi, pages);

		ck_assert_uint_le(64 + n * layouts[_i].slot, pages * 4096);
		ck_assert_uint_gt(64 + 2 * n * layouts[_i].slot, pages * 4096);
		ck_assert_uint_eq(n & (n - 1), 0);
	}
}
END_TEST

/* No two bytes alike, so that no two fields can be mistaken for one another. */
static void write_rw(const struct layout *l, uint8_t op, uint8_t *slot)
{
	memset(slot, POISON, SLOT_MAX);
	put(slot + 0, op, 1);
	put(slot + 1, 11, 1);
	put(slot + 2, 0x1615, 2);
	put(slot + l->id, UINT64_C(0x8786858483828180), 8);
	put(slot + l->sector, UINT64_C(0x2726252423222120), 8);
	for (unsigned i = 0; i < 11; i++) {
		put(slot + l->segments + 8 * i + 0, 0xC0DE0000u + i, 4);
		put(slot + l->segments + 8 * i + 4, 0x30 + i, 1);
		put(slot + l->segments + 8 * i + 5, 0x40 + i, 1);
	}
}

START_TEST(reads_every_field_where_the_guest_wrote_it)
{
	static const uint8_t ops[] = { 0, 1, 2, 3, 4, 7, 255 };
	const struct layout *l = &layouts[_i];
	uint8_t slot[SLOT_MAX];
	union abi_slot out;

	for (unsigned k = 0; k < sizeof(ops); k++) {
		write_rw(l, ops[k], slot);
		memset(&out, 0x5A, sizeof(out));
		abi_read_slot(l->abi, slot, &out);
		ck_assert_uint_eq(out.rw.operation, ops[k]);
		ck_assert_uint_eq(out.rw.nr_segments, 11);
		ck_assert_uint_eq(out.rw.handle, 0x1615);
		ck_assert_uint_eq(out.rw.id, UINT64_C(0x8786858483828180));
		ck_assert_uint_eq(out.rw.sector_number,
				  UINT64_C(0x2726252423222120));
		for (unsigned i = 0; i < 11; i++) {
			ck_assert_uint_eq(out.rw.seg[i].gref, 0xC0DE0000u + i);
			ck_assert_uint_eq(out.rw.seg[i].first_sect, 0x30 + i);
			ck_assert_uint_eq(out.rw.seg[i].last_sect, 0x40 + i);
		}
	}
}
END_TEST

START_TEST(reads_a_discard)
{
	const struct layout *l = &layouts[_i];
	uint8_t slot[SLOT_MAX];
	union abi_slot out;

	memset(slot, POISON, sizeof(slot));
	put(slot + 0, 5, 1);
	put(slot + 1, 0x81, 1);
	put(slot + 2, 0x1615, 2);
	put(slot + l->id, UINT64_C(0x8786858483828180), 8);
	put(slot + l->sector, UINT64_C(0x2726252423222120), 8);
	put(slot + l->segments, UINT64_C(0x3736353433323130), 8);
	abi_read_slot(l->abi, slot, &out);
	ck_assert_uint_eq(out.discard.operation, 5);
	ck_assert_uint_eq(out.discard.flag, 0x81);
	ck_assert_uint_eq(out.discard.handle, 0x1615);
	ck_assert_uint_eq(out.discard.id, UINT64_C(0x8786858483828180));
	ck_assert_uint_eq(out.discard.sector_number,
			  UINT64_C(0x2726252423222120));
	ck_assert_uint_eq(out.discard.nr_sectors, UINT64_C(0x3736353433323130));
	/* who only wants to answer reads these, whatever the operation is */
	ck_assert_uint_eq(out.rw.operation, 5);
	ck_assert_uint_eq(out.rw.id, UINT64_C(0x8786858483828180));
}
END_TEST

START_TEST(every_operation_has_its_id_at_the_same_place)
{
	const struct layout *l = &layouts[_i];
	uint8_t slot[SLOT_MAX];
	union abi_slot out;

	for (unsigned op = 0; op < 256; op++) {
		write_rw(l, (uint8_t)op, slot);
		abi_read_slot(l->abi, slot, &out);
		ck_assert_uint_eq(out.rw.operation, op);
		ck_assert_uint_eq(out.rw.id, UINT64_C(0x8786858483828180));
	}
}
END_TEST

START_TEST(a_copy_does_not_follow_the_guest)
{
	const struct layout *l = &layouts[_i];
	uint8_t slot[SLOT_MAX];
	union abi_slot out, before;

	write_rw(l, 1, slot);
	abi_read_slot(l->abi, slot, &out);
	before = out;
	memset(slot, 0xEE, sizeof(slot));
	ck_assert_mem_eq(&out, &before, sizeof(out));
}
END_TEST

START_TEST(reads_no_byte_beyond_the_slot)
{
	const struct layout *l = &layouts[_i];
	uint8_t slot[SLOT_MAX + 8];
	union abi_slot a, b;

	for (unsigned op = 0; op < 256; op++) {
		write_rw(l, (uint8_t)op, slot);
		memset(slot + l->slot, 0x11, sizeof(slot) - l->slot);
		abi_read_slot(l->abi, slot, &a);
		memset(slot + l->slot, 0x22, sizeof(slot) - l->slot);
		abi_read_slot(l->abi, slot, &b);
		ck_assert_mem_eq(&a, &b, sizeof(a));
	}
}
END_TEST

static const struct answer {
	uint64_t id;
	uint8_t op;
	int16_t status;
} answers[] = {
	{ 0, 0, 0 },
	{ UINT64_C(0x8786858483828180), 1, -1 },
	{ UINT64_MAX, 255, -2 },
	{ 1, 6, INT16_MIN },
};

START_TEST(writes_every_byte_of_a_response_and_no_other)
{
	const struct layout *l = &layouts[_i];

	for (unsigned k = 0; k < sizeof(answers) / sizeof(answers[0]); k++) {
		const struct answer *a = &answers[k];
		uint8_t got[SLOT_MAX], want[SLOT_MAX];

		memset(got, POISON, sizeof(got));
		memset(want, POISON, sizeof(want));
		memset(want, 0, l->response);
		put(want + 0, a->id, 8);
		put(want + 8, a->op, 1);
		put(want + 10, (uint16_t)a->status, 2);
		abi_write_response(l->abi, got, a->id, a->op, a->status);
		ck_assert_mem_eq(got, want, sizeof(got));
	}
}
END_TEST

static const struct {
	const char *name;
	int err;
	enum abi abi;
} names[] = {
	{ "x86_32-abi", 0, ABI_X86_32 },
	{ "x86_64-abi", 0, ABI_X86_64 },
	{ "arm-abi", 0, ABI_NATIVE },
	{ "native", 0, ABI_NATIVE },
	{ NULL, 0, ABI_X86_32 }, /* no key: as every Linux backend has it */
	{ "", -EPROTONOSUPPORT, 0 },
	{ "x86_32", -EPROTONOSUPPORT, 0 },
	{ "x86_64-abi ", -EPROTONOSUPPORT, 0 },
	{ "X86_64-ABI", -EPROTONOSUPPORT, 0 },
	{ "ia64-abi", -EPROTONOSUPPORT, 0 },
};

START_TEST(knows_the_protocols_by_name)
{
	enum abi abi = NR_ABIS;
	const char *why = names[_i].name ? names[_i].name : "no key";

	ck_assert_msg(abi_from_name(names[_i].name, &abi) == names[_i].err,
		      "\"%s\"", why);
	ck_assert_msg(abi == (names[_i].err ? NR_ABIS : names[_i].abi),
		      "\"%s\" is %d", why, abi);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("abi");
	TCase *tcase = tcase_create("abi");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tcase, a_ring_has_as_many_slots_in_every_abi, 0,
			    NR_LAYOUTS);
	tcase_add_loop_test(tcase, the_last_slot_ends_within_the_pages, 0,
			    NR_LAYOUTS);
	tcase_add_loop_test(tcase, reads_every_field_where_the_guest_wrote_it,
			    0, NR_LAYOUTS);
	tcase_add_loop_test(tcase, reads_a_discard, 0, NR_LAYOUTS);
	tcase_add_loop_test(tcase, every_operation_has_its_id_at_the_same_place,
			    0, NR_LAYOUTS);
	tcase_add_loop_test(tcase, a_copy_does_not_follow_the_guest, 0,
			    NR_LAYOUTS);
	tcase_add_loop_test(tcase, reads_no_byte_beyond_the_slot, 0,
			    NR_LAYOUTS);
	tcase_add_loop_test(tcase, writes_every_byte_of_a_response_and_no_other,
			    0, NR_LAYOUTS);
	tcase_add_loop_test(tcase, knows_the_protocols_by_name, 0,
			    (int)(sizeof(names) / sizeof(names[0])));
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
