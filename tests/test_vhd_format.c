/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VHD's metadata: what is built is read back, and what is hostile is refused
 * with a word that says why.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include "drivers/vhd_bytes.h"
#include "drivers/vhd_format.h"
#include "tests/dice.h"
#include "tests/rig.h"

enum {
	MIB = 1 << 20,
	BAT = 1536,
};

struct metadata {
	uint8_t footer[VHD_FORMAT_FOOTER];
	uint8_t header[VHD_FORMAT_HEADER];
	uint64_t store;
	uint32_t bat[8];
};

static const struct vhd_format_footer a_footer = {
	.type = VHD_FORMAT_DYNAMIC,
	.header_offset = 512,
	.original_bytes = 5 * MIB + 512,
	.bytes = 5 * MIB + 512,
	.timestamp = 12345,
	.creator_version = 0x10003,
	.creator = "tap",
	.cylinders = 301,
	.heads = 4,
	.sectors = 17,
	.id = { 1, 2, 3 },
};

static const struct vhd_format_header a_header = {
	.bat_offset = BAT,
	.entries = 8,
	.block = 2 * MIB,
	.parent_id = { 9, 8, 7 },
	.parent_timestamp = 77,
	.parent_name = { 0, 'a' },
	.locators = { { 0x57327275, 512, 28, 4096 },
		      { 0x4d616358, 1024, 600, 8192 } },
};

static void make(struct metadata *m)
{
	memset(m, 0, sizeof(*m));
	vhd_format_build_footer(&a_footer, m->footer);
	vhd_format_build_header(&a_header, m->header);
	memset(m->bat, 0xff, sizeof(m->bat));
	m->bat[0] = 7;
	m->bat[2] = 7 + 4097;
	m->store = (7 + 2 * 4097) * 512;
}

static void sum(uint8_t *bytes, size_t len, size_t at)
{
	vhd_bytes_put32(bytes + at, 0);
	vhd_bytes_put32(bytes + at, vhd_format_checksum(bytes, len));
}

static int check(struct metadata *m, const char **why)
{
	struct vhd_format_footer footer;
	struct vhd_format_header header;
	uint32_t scratch[8], bad;
	int err;

	err = vhd_format_parse_footer(m->footer, VHD_FORMAT_FOOTER, &footer,
				      why);
	if (!err)
		err = vhd_format_parse_header(m->header, &footer, m->store,
					      &header, why);
	if (err)
		return err;
	return vhd_format_check_bat(m->bat, vhd_format_blocks(&footer, &header),
				    &header, m->store, scratch, &bad, why);
}

START_TEST(what_is_built_is_read_back)
{
	struct vhd_format_footer footer;
	struct vhd_format_header header;
	struct metadata m, again;
	const char *why = "";

	make(&m);
	ck_assert_msg(!check(&m, &why), "%s", why);
	ck_assert_int_eq(vhd_format_parse_footer(m.footer, sizeof(m.footer),
						 &footer, &why),
			 0);
	ck_assert_int_eq(vhd_format_parse_header(m.header, &footer, m.store,
						 &header, &why),
			 0);
	ck_assert_uint_eq(footer.bytes, a_footer.bytes);
	ck_assert_uint_eq(vhd_format_blocks(&footer, &header), 3);
	ck_assert_mem_eq(&header, &a_header, sizeof(header));
	vhd_format_build_footer(&footer, again.footer);
	vhd_format_build_header(&header, again.header);
	ck_assert_mem_eq(m.footer, again.footer, sizeof(m.footer));
	ck_assert_mem_eq(m.header, again.header, sizeof(m.header));
}
END_TEST

static void bad_cookie(struct metadata *m)
{
	m->footer[0] = 'k';
}

static void bad_footer_sum(struct metadata *m)
{
	m->footer[200] = 1;
}

static void footer32(struct metadata *m, size_t at, uint32_t value)
{
	vhd_bytes_put32(m->footer + at, value);
	sum(m->footer, VHD_FORMAT_FOOTER, 64);
}

static void header32(struct metadata *m, size_t at, uint32_t value)
{
	vhd_bytes_put32(m->header + at, value);
	sum(m->header, VHD_FORMAT_HEADER, 36);
}

static void bytes(struct metadata *m, uint64_t value)
{
	vhd_bytes_put64(m->footer + 48, value);
	sum(m->footer, VHD_FORMAT_FOOTER, 64);
}

static void bat_offset(struct metadata *m, uint64_t value)
{
	vhd_bytes_put64(m->header + 16, value);
	sum(m->header, VHD_FORMAT_HEADER, 36);
}

static void bad_version(struct metadata *m)
{
	footer32(m, 12, 0x20000);
}

static void no_feature(struct metadata *m)
{
	footer32(m, 8, 0);
}

static void type_5(struct metadata *m)
{
	footer32(m, 60, 5);
}

static void no_disk(struct metadata *m)
{
	bytes(m, 0);
}

static void odd_disk(struct metadata *m)
{
	bytes(m, 5 * MIB + 1);
}

static void big_disk(struct metadata *m)
{
	bytes(m, VHD_FORMAT_BYTES_MAX + 512);
}

static void endless_disk(struct metadata *m)
{
	bytes(m, UINT64_MAX - 511);
}

static void header_offset(struct metadata *m, uint64_t value)
{
	vhd_bytes_put64(m->footer + 16, value);
	sum(m->footer, VHD_FORMAT_FOOTER, 64);
}

static void header_far(struct metadata *m)
{
	header_offset(m, UINT64_MAX - 511);
}

static void header_odd(struct metadata *m)
{
	header_offset(m, 513);
}

static void header_at_0(struct metadata *m)
{
	header_offset(m, 0);
}

static void header_cookie(struct metadata *m)
{
	m->header[3] = 0;
}

static void header_sum(struct metadata *m)
{
	m->header[900] = 1;
}

static void header_version(struct metadata *m)
{
	header32(m, 24, 0x10001);
}

static void block_0(struct metadata *m)
{
	header32(m, 32, 0);
}

static void block_1(struct metadata *m)
{
	header32(m, 32, 1);
}

static void block_3m(struct metadata *m)
{
	header32(m, 32, 3 * MIB);
}

static void block_2g(struct metadata *m)
{
	header32(m, 32, UINT32_C(1) << 31);
}

static void entries_0(struct metadata *m)
{
	header32(m, 28, 0);
}

static void entries_2(struct metadata *m)
{
	header32(m, 28, 2); /* the last block is a partial one */
}

static void entries_max(struct metadata *m)
{
	header32(m, 28, UINT32_MAX);
}

static void bat_far(struct metadata *m)
{
	bat_offset(m, UINT64_MAX - 511);
}

static void bat_at_end(struct metadata *m)
{
	bat_offset(m, m->store);
}

static void bat_odd(struct metadata *m)
{
	bat_offset(m, BAT + 8);
}

static void bat_at_0(struct metadata *m)
{
	bat_offset(m, 0);
}

static void bat_over_header(struct metadata *m)
{
	bat_offset(m, 1024);
}

static void block_at_1(struct metadata *m)
{
	m->bat[0] = 1;
}

static void block_on_bat(struct metadata *m)
{
	m->bat[0] = BAT / 512;
}

static void block_at_0(struct metadata *m)
{
	m->bat[1] = 0;
}

static void block_far(struct metadata *m)
{
	m->bat[0] = VHD_FORMAT_NONE - 1;
}

static void block_at_end(struct metadata *m)
{
	m->bat[1] = (uint32_t)(m->store / 512);
}

static void twice(struct metadata *m)
{
	m->bat[1] = m->bat[0];
}

static void overlap_by_one(struct metadata *m)
{
	m->bat[2]--;
}

static const struct {
	void (*spoil)(struct metadata *m);
	const char *why;
} hostile[] = {
	{ bad_cookie, "no footer: wrong cookie" },
	{ bad_footer_sum, "footer: wrong checksum" },
	{ bad_version, "footer: unknown version of the format" },
	{ no_feature, "footer: the reserved feature is missing" },
	{ type_5, "footer: unknown type of disk" },
	{ no_disk, "footer: not a whole number of sectors" },
	{ odd_disk, "footer: not a whole number of sectors" },
	{ big_disk, "footer: a disk of more than 2040 GiB" },
	{ endless_disk, "footer: a disk of more than 2040 GiB" },
	{ header_far, "footer: the header is nowhere" },
	{ header_odd, "footer: the header is nowhere" },
	{ header_at_0, "footer: the header is nowhere" },
	{ header_cookie, "no header: wrong cookie" },
	{ header_sum, "header: wrong checksum" },
	{ header_version, "header: unknown version" },
	{ block_0, "header: bad size of blocks" },
	{ block_1, "header: bad size of blocks" },
	{ block_3m, "header: bad size of blocks" },
	{ block_2g, "header: bad size of blocks" },
	{ entries_0, "header: fewer blocks than the disk has" },
	{ entries_2, "header: fewer blocks than the disk has" },
	{ entries_max, "header: too many blocks" },
	{ bat_far, "header: the BAT is not in the file" },
	{ bat_at_end, "header: the BAT is not in the file" },
	{ bat_odd, "header: the BAT is not in the file" },
	{ bat_at_0, "header: the BAT lies over the headers" },
	{ bat_over_header, "header: the BAT lies over the headers" },
	{ block_at_1, "BAT: a block lies over the metadata" },
	{ block_on_bat, "BAT: a block lies over the metadata" },
	{ block_at_0, "BAT: a block lies over the metadata" },
	{ block_far, "BAT: a block is not in the file: has it been "
		     "truncated?" },
	{ block_at_end, "BAT: a block is not in the file: has it been "
			"truncated?" },
	{ twice, "BAT: two blocks lie over each other" },
	{ overlap_by_one, "BAT: two blocks lie over each other" },
};

START_TEST(refuses_hostile_metadata_and_says_why)
{
	const char *why = "nothing";
	struct metadata m;

	make(&m);
	hostile[_i].spoil(&m);
	ck_assert_msg(check(&m, &why) == -EINVAL, "taken: %s", hostile[_i].why);
	ck_assert_str_eq(why, hostile[_i].why);
}
END_TEST

START_TEST(an_old_footer_has_511_bytes)
{
	struct vhd_format_footer footer;
	struct metadata m;
	const char *why;

	make(&m);
	ck_assert_int_eq(vhd_format_parse_footer(m.footer, 511, &footer, &why),
			 0);
	ck_assert_int_eq(vhd_format_parse_footer(m.footer, 510, &footer, &why),
			 -EINVAL);
}
END_TEST

START_TEST(poison_and_hidden_are_seen)
{
	struct vhd_format_footer footer = a_footer;
	struct metadata m;
	const char *why;

	footer.poisoned = true;
	vhd_format_build_footer(&footer, m.footer);
	ck_assert_int_eq(vhd_format_parse_footer(m.footer, 512, &footer, &why),
			 0);
	ck_assert(footer.poisoned && !footer.hidden);
	make(&m);
	m.footer[85] = 1; /* as old tapdisks did, without a new checksum */
	ck_assert_int_eq(vhd_format_parse_footer(m.footer, 512, &footer, &why),
			 0);
	ck_assert(footer.hidden && !footer.poisoned);
}
END_TEST

/* A million blocks in the worst of orders take no quadratic time (V26). */
START_TEST(a_full_table_is_checked_quickly)
{
	const uint32_t n = 1044480;
	struct vhd_format_header header = a_header;
	uint32_t *bat = malloc(n * sizeof(*bat)), bad;
	uint32_t *scratch = malloc(n * sizeof(*bat));
	const char *why = "";
	clock_t began = clock();

	ck_assert(bat && scratch);
	header.entries = n;
	for (uint32_t i = 0; i < n; i++)
		bat[i] = 8200 + (n - 1 - i) * UINT32_C(4097);
	ck_assert_int_eq(vhd_format_check_bat(bat, n, &header, UINT64_MAX / 2,
					      scratch, &bad, &why),
			 0);
	ck_assert_int_lt((clock() - began) / CLOCKS_PER_SEC, 20);
	bat[n / 2] = bat[n - 1] + 4096;
	ck_assert_int_eq(vhd_format_check_bat(bat, n, &header, UINT64_MAX / 2,
					      scratch, &bad, &why),
			 -EINVAL);
	free(bat);
	free(scratch);
}
END_TEST

static const struct {
	struct vhd_format_locator locator;
	int want;
	const char *why;
} places[] = {
	{ { 0x57327275, 512, 28, 4096 }, 0, "as it should be" },
	{ { 0x57327275, 512, 28, 65508 }, 0, "at the end" },
	{ { 0, 512, 28, 4096 }, -ENOENT, "unused" },
	{ { 0x57693272, 512, 28, 4096 }, -ENOENT, "of a kind long gone" },
	{ { 0x57327275, 512, 0, 4096 }, -EINVAL, "empty" },
	{ { 0x57327275, 512, 513, 4096 }, -EINVAL, "longer than its space" },
	{ { 0x57327275, UINT32_MAX, UINT32_MAX, 4096 }, -EINVAL, "endless" },
	{ { 0x57327275, 512, 28, 65509 }, -EINVAL, "over the end" },
	{ { 0x57327275, 512, 28, UINT64_MAX - 8 }, -EINVAL, "far away" },
	{ { 0x57327275, 512, 28, 0 }, -EINVAL, "in the footer's copy" },
};

START_TEST(a_locator_lies_in_the_file)
{
	const char *why;
	int err = vhd_format_check_locator(&places[_i].locator, 65536, &why);

	ck_assert_msg(err == places[_i].want, "%s: %d", places[_i].why, err);
}
END_TEST

#define WIDE(s) (const char *)(u"" s), sizeof(u"" s) - 2

static const struct {
	uint32_t code;
	const char *text;
	size_t len;
	const char *path; /* NULL: refused */
} texts[] = {
	{ 0x57327275, WIDE(".\\a.vhd"), "./a.vhd" },
	{ 0x57326b75, WIDE("..\\x\\a.vhd"), "../x/a.vhd" },
	{ 0x57327275, WIDE("\u00fc\u20ac\U0001f600"),
	  "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80" },
	{ 0x57327275, "\x00\xd8", 2, NULL },
	{ 0x57327275, "\x00\xd8\x41\x00", 4, NULL },
	{ 0x57327275, "\x00\xdc", 2, NULL },
	{ 0x57327275, "\x00\x00", 2, NULL },
	{ 0x57327275, "x", 1, NULL },
	{ 0x4d616358, "file://./a.vhd", 14, "./a.vhd" },
	{ 0x4d616358, "file:///srv/a%20b.vhd", 21, "/srv/a b.vhd" },
	{ 0x4d616358, "file://./100%.vhd", 17, "./100%.vhd" },
	{ 0x4d616358, "file://./a%00b", 14, NULL },
	{ 0x4d616358, "file://", 7, NULL },
	{ 0x4d616358, "http://x/a.vhd", 14, NULL },
	{ 0x4d616358, "file:/", 6, NULL },
	{ 0x4d616320, "file://./a.vhd", 14, NULL },
};

START_TEST(a_locator_becomes_a_path)
{
	char path[VHD_FORMAT_PATH];
	const char *why = NULL;
	int err;

	err = vhd_format_locator_path(texts[_i].code,
				      (const uint8_t *)texts[_i].text,
				      texts[_i].len, path, &why);
	ck_assert_int_eq(err, texts[_i].path ? 0 : -EINVAL);
	if (err)
		ck_assert_ptr_nonnull(why);
	else
		ck_assert_str_eq(path, texts[_i].path);
}
END_TEST

/* The most significant bit comes first, in any pattern (V24). */
START_TEST(runs_of_bits_are_those_of_a_slow_count)
{
	struct dice dice = { 5 };
	uint8_t map[64];

	for (unsigned round = 0; round < 2000; round++) {
		uint32_t i = (uint32_t)dice_below(&dice, 511), end, j;

		for (unsigned k = 0; k < sizeof(map); k++)
			map[k] = dice_below(&dice, 3)
					 ? (uint8_t)-dice_below(&dice, 2)
					 : (uint8_t)dice_any(&dice);
		end = i + 1 + (uint32_t)dice_below(&dice, 511 - i);
		for (j = i; j < end; j++)
			if (!(map[j / 8] & 0x80 >> j % 8) !=
			    !(map[i / 8] & 0x80 >> i % 8))
				break;
		ck_assert_uint_eq(vhd_format_run(map, i, end), j);
	}
}
END_TEST

START_TEST(a_batmap_is_where_it_may_be)
{
	struct vhd_format_batmap batmap = { .offset = 2560, .bytes = 512 };
	struct vhd_format_batmap out;
	uint8_t sector[512];
	const char *why;

	vhd_format_build_batmap(&batmap, sector);
	ck_assert_int_eq(vhd_format_parse_batmap(sector, &a_header, 3, 3072,
						 &out, &why),
			 0);
	ck_assert_uint_eq(out.offset, 2560);
	ck_assert_int_eq(vhd_format_parse_batmap(sector, &a_header, 3, 3071,
						 &out, &why),
			 -EINVAL);
	ck_assert_int_eq(vhd_format_parse_batmap(sector, &a_header, 4097, 3072,
						 &out, &why),
			 -EINVAL);
	batmap.offset = 2048; /* over its own header */
	vhd_format_build_batmap(&batmap, sector);
	ck_assert_int_eq(vhd_format_parse_batmap(sector, &a_header, 3, 3072,
						 &out, &why),
			 -EINVAL);
	batmap.offset = UINT64_MAX - 511;
	vhd_format_build_batmap(&batmap, sector);
	ck_assert_int_eq(vhd_format_parse_batmap(sector, &a_header, 3, 3072,
						 &out, &why),
			 -EINVAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("vhd_format");
	TCase *tc = tcase_create("vhd_format");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, what_is_built_is_read_back);
	tcase_add_loop_test(tc, refuses_hostile_metadata_and_says_why, 0,
			    sizeof(hostile) / sizeof(*hostile));
	tcase_add_test(tc, an_old_footer_has_511_bytes);
	tcase_add_test(tc, poison_and_hidden_are_seen);
	tcase_add_test(tc, a_full_table_is_checked_quickly);
	tcase_add_loop_test(tc, a_locator_lies_in_the_file, 0,
			    sizeof(places) / sizeof(*places));
	tcase_add_loop_test(tc, a_locator_becomes_a_path, 0,
			    sizeof(texts) / sizeof(*texts));
	tcase_add_test(tc, runs_of_bits_are_those_of_a_slow_count);
	tcase_add_test(tc, a_batmap_is_where_it_may_be);
	suite_add_tcase(suite, tc);
	return rig_run(suite);
}
