/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What evtchn/guest.h promises of a guest's memory, asked of every kind of
 * guest that opens here.  What only the local guest can be asked is in
 * test_guest_local.c.
 */
#include <errno.h>
#include <string.h>
#include "tests/pair.h"
#include "tests/rig.h"

START_TEST(no_kind_is_forgotten)
{
	int n = 0;

	while (guest_table[n])
		n++;
	ck_assert_int_eq(n, pair_kinds());
}
END_TEST

START_TEST(close_gives_everything_back)
{
	unsigned before = scratch_descriptors();
	uint32_t grefs[2];
	struct pair t;
	void *p;

	pair_open(&t, _i);
	grefs[0] = pair_ref(&t, 1);
	grefs[1] = pair_ref(&t, 2);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 2, &p), 0);
	pair_bind(&t);
	pair_close(&t);
	ck_assert_uint_eq(scratch_descriptors(), before);
}
END_TEST

START_TEST(map_is_side_by_side_and_shared)
{
	static const unsigned pages[] = { 5, 2, 7, 1 };
	uint32_t grefs[4];
	struct pair t;
	uint8_t *ring;
	void *p;
	int i;

	pair_open(&t, _i);
	for (i = 0; i < 4; i++) {
		grefs[i] = pair_ref(&t, pages[i]);
		pair_page(&t, pages[i])[4095] = (uint8_t)(10 + i);
	}
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 4, &p), 0);
	ring = p;
	for (i = 0; i < 4; i++)
		ck_assert_uint_eq(ring[i * 4096 + 4095], 10 + i);
	memset(ring + 4090, 0x5a, 12);
	ck_assert_uint_eq(pair_page(&t, 5)[4095], 0x5a);
	ck_assert_uint_eq(pair_page(&t, 2)[5], 0x5a);
	ck_assert_uint_eq(pair_page(&t, 2)[6], 0);
	t.ops->unmap(t.guest);
	pair_close(&t);
}
END_TEST

START_TEST(map_refuses_a_reference_that_is_not_offered)
{
	struct pair t;
	uint32_t grefs[3] = { 0 };
	void *p;

	pair_open(&t, _i);
	grefs[0] = pair_ref(&t, 1);
	grefs[2] = pair_ref(&t, 2);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 0, &p), -EINVAL);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), -EINVAL);
	grefs[1] = t.domain->no_ref;
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), -EINVAL);
	grefs[1] = UINT32_MAX;
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), -EINVAL);
	grefs[1] = pair_ref(&t, 3);
	ck_assert_int_eq(t.ops->map(t.guest, grefs, 3, &p), 0);
	pair_close(&t);
}
END_TEST

START_TEST(copies_both_ways)
{
	struct pair t;
	uint8_t ours[4096], one = 0;
	struct guest_copy c[] = {
		{ .offset = 0, .len = 4096, .local = ours },
		{ .offset = 4095, .len = 1, .local = &one },
	};

	pair_open(&t, _i);
	c[0].gref = pair_ref(&t, 3);
	c[1].gref = pair_ref(&t, 4);
	memset(pair_page(&t, 3), 0x11, 4096);
	pair_page(&t, 4)[4095] = 0x22;
	c[0].err = c[1].err = -1;
	ck_assert_int_eq(t.ops->copy(t.guest, GUEST_TO_US, c, 2), 0);
	ck_assert_int_eq(c[0].err, 0);
	ck_assert_int_eq(c[1].err, 0);
	ck_assert_uint_eq(ours[0], 0x11);
	ck_assert_uint_eq(ours[4095], 0x11);
	ck_assert_uint_eq(one, 0x22);

	memset(ours, 0x33, sizeof(ours));
	one = 0x44;
	c[0].offset = 512;
	c[0].len = 512;
	ck_assert_int_eq(t.ops->copy(t.guest, US_TO_GUEST, c, 2), 0);
	ck_assert_uint_eq(pair_page(&t, 3)[511], 0x11);
	ck_assert_uint_eq(pair_page(&t, 3)[512], 0x33);
	ck_assert_uint_eq(pair_page(&t, 3)[1023], 0x33);
	ck_assert_uint_eq(pair_page(&t, 3)[1024], 0x11);
	ck_assert_uint_eq(pair_page(&t, 4)[4094], 0);
	ck_assert_uint_eq(pair_page(&t, 4)[4095], 0x44);
	pair_close(&t);
}
END_TEST

static const struct {
	const char *why;
	enum { GOOD_REF, NO_REF, REF_0, REF_MAX } ref;
	uint16_t offset, len;
} bad_pieces[] = {
	{ "reference 0", REF_0, 0, 512 },
	{ "a reference that is not offered", NO_REF, 0, 512 },
	{ "largest reference", REF_MAX, 0, 512 },
	{ "one byte over the page's end", GOOD_REF, 3585, 512 },
	{ "offset past the page", GOOD_REF, 4097, 0 },
	{ "offset and length that wrap in 16 bits", GOOD_REF, 65535, 2 },
	{ "more than a page", GOOD_REF, 0, 4097 },
};

static uint32_t bad_ref(struct pair *t, unsigned i)
{
	switch (bad_pieces[i].ref) {
	case GOOD_REF:
		return pair_ref(t, 3);
	case NO_REF:
		return t->domain->no_ref;
	case REF_0:
		return 0;
	default:
		return UINT32_MAX;
	}
}

static void bad_piece_alone_fails(int kind, enum guest_direction direction)
{
	static uint8_t ours[3][65536];
	struct guest_copy c[3];
	struct pair t;
	unsigned i;

	pair_open(&t, kind);
	for (i = 0; i < sizeof(bad_pieces) / sizeof(bad_pieces[0]); i++) {
		memset(ours, 0xaa, sizeof(ours));
		memset(pair_page(&t, 1), 0x77, 7 * 4096);
		c[0] = (struct guest_copy){ pair_ref(&t, 1), 0, 512, ours[0],
					    1 };
		c[1] = (struct guest_copy){ bad_ref(&t, i),
					    bad_pieces[i].offset,
					    bad_pieces[i].len, ours[1], 1 };
		c[2] = (struct guest_copy){ pair_ref(&t, 2), 3584, 512, ours[2],
					    1 };
		ck_assert_msg(t.ops->copy(t.guest, direction, c, 3) == -EIO,
			      "%s: call", bad_pieces[i].why);
		ck_assert_msg(c[1].err == -EIO, "%s: piece", bad_pieces[i].why);
		ck_assert_msg(c[0].err == 0 && c[2].err == 0, "%s: neighbours",
			      bad_pieces[i].why);
		ck_assert_uint_eq(ours[1][0], 0xaa);
		ck_assert_uint_eq(pair_page(&t, 3)[3585], 0x77);
		ck_assert_uint_eq(pair_page(&t, 4)[0], 0x77);
		if (direction == GUEST_TO_US) {
			ck_assert_uint_eq(ours[0][511], 0x77);
			ck_assert_uint_eq(ours[2][511], 0x77);
		} else {
			ck_assert_uint_eq(pair_page(&t, 1)[511], 0xaa);
			ck_assert_uint_eq(pair_page(&t, 2)[4095], 0xaa);
		}
	}
	pair_close(&t);
}

START_TEST(a_bad_piece_fails_alone_reading)
{
	bad_piece_alone_fails(_i, GUEST_TO_US);
}
END_TEST

START_TEST(a_bad_piece_fails_alone_writing)
{
	bad_piece_alone_fails(_i, US_TO_GUEST);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("guest_memory");
	TCase *c = tcase_create("contract");
	int here = pair_kinds_here();

	tcase_set_timeout(c, 30);
	tcase_add_test(c, no_kind_is_forgotten);
	tcase_add_loop_test(c, close_gives_everything_back, 0, here);
	tcase_add_loop_test(c, map_is_side_by_side_and_shared, 0, here);
	tcase_add_loop_test(c, map_refuses_a_reference_that_is_not_offered, 0,
			    here);
	tcase_add_loop_test(c, copies_both_ways, 0, here);
	tcase_add_loop_test(c, a_bad_piece_fails_alone_reading, 0, here);
	tcase_add_loop_test(c, a_bad_piece_fails_alone_writing, 0, here);
	suite_add_tcase(s, c);
	return rig_run(s);
}
