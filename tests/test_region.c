/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file in a region of a block device holds what a file would.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/random.h"
#include "tests/bench/region.h"
#include "tests/fake_block.h"

#define DISK (512u * 1024)
#define START 4096u
#define REGION (256u * 1024)
#define ROOM (REGION - REGION_DATA)
#define STEPS 3000
#define SEEDS 8
#define SYNCS 10

/* The file as it ought to be. */
struct model {
	uint8_t bytes[ROOM];
	uint64_t length;
};

static void fill_garbage(uint8_t *image)
{
	uint64_t seed = 3;
	size_t i;

	for (i = 0; i < DISK; i++)
		image[i] = (uint8_t)random_next(&seed);
}

static void do_write(struct region *r, struct model *m, uint64_t *seed)
{
	static uint8_t data[70000];
	uint64_t offset, i;
	size_t len;

	/* mostly small, mostly near the end, as a journal's are */
	len = 1 + random_below(seed, random_below(seed, 8) ? 5000 : 70000);
	offset = random_below(seed, 3) ? m->length
				       : random_below(seed, ROOM + 1);
	if (random_below(seed, 2))
		offset = offset / 512 * 512;
	for (i = 0; i < len; i++)
		data[i] = (uint8_t)random_next(seed);
	if (offset + len > ROOM) {
		ck_assert_int_eq(region_write(r, offset, data, len), -ENOSPC);
		return;
	}
	ck_assert_int_eq(region_write(r, offset, data, len), 0);
	if (offset > m->length)
		memset(m->bytes + m->length, 0, offset - m->length);
	memcpy(m->bytes + offset, data, len);
	if (offset + len > m->length)
		m->length = offset + len;
}

static void do_read(struct region *r, const struct model *m, uint64_t *seed)
{
	static uint8_t data[70000];
	uint64_t offset = random_below(seed, ROOM);
	size_t len = 1 + random_below(seed, sizeof(data));
	int64_t want = 0;

	if (offset < m->length)
		want = m->length - offset < len ? (int64_t)(m->length - offset)
						: (int64_t)len;
	ck_assert_int_eq(region_read(r, offset, data, len), want);
	if (want)
		ck_assert_mem_eq(data, m->bytes + offset, (size_t)want);
}

static void do_truncate(struct region *r, struct model *m, uint64_t *seed)
{
	uint64_t length =
		random_below(seed, 4) ? random_below(seed, m->length + 1) : 0;

	ck_assert_int_eq(region_truncate(r, length), 0);
	m->length = length;
}

static void reopen(struct region *r, struct block *block, struct model *m)
{
	ck_assert_int_eq(region_write_out(r), 0);
	ck_assert_int_eq(region_open(r, block, START, REGION), 0);
	ck_assert(r->exists);
	ck_assert_uint_eq(r->length, m->length);
}

static void step(struct region *r, struct block *block, struct model *m,
		 uint64_t *seed)
{
	switch (random_below(seed, 20)) {
	case 0:
		do_truncate(r, m, seed);
		break;
	case 1:
		reopen(r, block, m);
		break;
	case 2:
	case 3:
		ck_assert_int_eq(region_sync(r), 0);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		do_read(r, m, seed);
		break;
	default:
		do_write(r, m, seed);
	}
}

START_TEST(holds_what_a_file_would)
{
	static uint8_t image[DISK];
	static struct region r;
	static struct model m;
	struct fake_block disk;
	uint64_t seed = (uint64_t)_i;
	unsigned i;

	fill_garbage(image);
	fake_block_init(&disk, DISK, image);
	ck_assert_int_eq(region_open(&r, &disk.block, START, REGION), 0);
	ck_assert(!r.exists);
	ck_assert_int_eq(region_create(&r), 0);
	for (i = 0; i < STEPS; i++)
		step(&r, &disk.block, &m, &seed);
	ck_assert_int_eq(region_sync(&r), 0);
	/* and not a byte outside */
	ck_assert_mem_eq(disk.bytes, image, START);
	ck_assert_mem_eq(disk.bytes + START + REGION, image + START + REGION,
			 DISK - START - REGION);
	fake_block_fini(&disk);
}
END_TEST

START_TEST(a_removed_file_is_gone_and_comes_back_empty)
{
	static struct region r;
	struct fake_block disk;

	fake_block_init(&disk, DISK, NULL);
	ck_assert_int_eq(region_open(&r, &disk.block, START, REGION), 0);
	ck_assert_int_eq(region_create(&r), 0);
	ck_assert_int_eq(region_write(&r, 0, "hello", 5), 0);
	ck_assert_int_eq(region_sync(&r), 0);
	ck_assert_int_eq(region_remove(&r, true), 0);
	ck_assert_int_eq(region_open(&r, &disk.block, START, REGION), 0);
	ck_assert(!r.exists);
	ck_assert_int_eq(region_create(&r), 0);
	ck_assert_uint_eq(r.length, 0);
	fake_block_fini(&disk);
}
END_TEST

/* 10 bytes more; every other time with a header written on the way. */
static void write_and_shorten(struct region *r, unsigned i)
{
	uint64_t length = r->length;

	ck_assert_int_eq(region_write(r, length, "0123456789", 10), 0);
	if (i % 2) {
		ck_assert_int_eq(region_truncate(r, length + 5), 0);
		ck_assert_int_eq(region_write(r, length + 5, "56789", 5), 0);
	}
	ck_assert_int_eq(region_sync(r), 0);
}

/*
 * Cut in the middle of any write, its sector torn, and all that was not
 * flushed before lost or kept: the header is that of the last sync, or later.
 */
START_TEST(a_torn_header_leaves_the_one_before)
{
	static uint8_t image[DISK];
	static struct region r;
	struct fake_block disk, after;
	size_t synced[SYNCS], i, n;

	fake_block_init(&disk, DISK, NULL);
	ck_assert_int_eq(region_open(&r, &disk.block, START, REGION), 0);
	ck_assert_int_eq(region_create(&r), 0);
	ck_assert_int_eq(region_sync(&r), 0);
	n = disk.nr_ops;
	for (i = 0; i < SYNCS; i++) {
		write_and_shorten(&r, (unsigned)i);
		synced[i] = disk.nr_ops;
	}
	for (; n < disk.nr_ops; n++) {
		if (!disk.ops[n].len)
			continue;
		memset(image, 0, DISK);
		fake_block_cut(&disk, n, _i ? FAKE_KEPT : FAKE_LOST, 0, image);
		memset(image + disk.ops[n].offset + 16, 0xee, 16);
		fake_block_init(&after, DISK, image);
		ck_assert_int_eq(region_open(&r, &after.block, START, REGION),
				 0);
		for (i = 0; i < SYNCS && synced[i] <= n; i++)
			;
		ck_assert_msg(r.exists && r.length >= 10 * i,
			      "torn operation %zu: %llu bytes", n,
			      (unsigned long long)r.length);
		fake_block_fini(&after);
	}
	fake_block_fini(&disk);
}
END_TEST

START_TEST(only_what_was_written_goes_out)
{
	static uint8_t data[20000];
	static struct region r;
	struct fake_block disk;
	size_t before;

	fake_block_init(&disk, DISK, NULL);
	ck_assert_int_eq(region_open(&r, &disk.block, START, REGION), 0);
	ck_assert_int_eq(region_create(&r), 0);
	ck_assert_int_eq(region_write(&r, 0, data, sizeof(data)), 0);
	ck_assert_int_eq(region_sync(&r), 0);
	before = disk.nr_ops;
	ck_assert_int_eq(region_write(&r, 8, "four", 4), 0);
	ck_assert_int_eq(region_write(&r, 5000, "four", 4), 0);
	ck_assert_int_eq(region_write(&r, 5004, "more", 4), 0);
	ck_assert_int_eq(region_sync(&r), 0);
	ck_assert_uint_eq(disk.nr_ops - before, 3);
	ck_assert_uint_eq(disk.ops[before].len, 512);
	ck_assert_uint_eq(disk.ops[before + 1].len, 512);
	ck_assert_uint_eq(disk.ops[before + 2].len, 0);
	fake_block_fini(&disk);
}
END_TEST

START_TEST(an_error_of_the_disk_is_passed_on)
{
	static struct region r;
	struct fake_block disk;
	char byte = 1;

	fake_block_init(&disk, DISK, NULL);
	ck_assert_int_eq(region_open(&r, &disk.block, START, REGION), 0);
	ck_assert_int_eq(region_create(&r), 0);
	ck_assert_int_eq(region_write(&r, 0, &byte, 1), 0);
	disk.fail = -EIO;
	ck_assert_int_eq(region_sync(&r), -EIO);
	disk.fail = 0;
	/* nothing was forgotten */
	ck_assert_int_eq(region_sync(&r), 0);
	ck_assert_int_eq(region_open(&r, &disk.block, START, REGION), 0);
	ck_assert_uint_eq(r.length, 1);
	disk.fail = -EIO;
	ck_assert_int_eq(region_read(&r, 0, &byte, 1), -EIO);
	ck_assert_int_eq(region_open(&r, &disk.block, START, REGION), -EIO);
	fake_block_fini(&disk);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("region");
	TCase *tc = tcase_create("region");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_add_tcase(suite, tc);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, holds_what_a_file_would, 0, SEEDS);
	tcase_add_test(tc, a_removed_file_is_gone_and_comes_back_empty);
	tcase_add_loop_test(tc, a_torn_header_leaves_the_one_before, 0, 2);
	tcase_add_test(tc, only_what_was_written_goes_out);
	tcase_add_test(tc, an_error_of_the_disk_is_passed_on);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
