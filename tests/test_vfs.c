/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SQLite on the benchmark's VFS: the power may be cut anywhere, and what was
 * committed is there.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/database.h"
#include "tests/bench/random.h"
#include "tests/bench/vfs.h"
#include "tests/fake_block.h"

#define DISK (4u << 20)
#define COMMITS 8
#define MIXES 3 /* seeds of FAKE_MIXED at each cut */

/* rows: of a transaction; enough for one to spill over a window and a page */
static const struct {
	const char *journal;
	uint32_t rows;
} cases[] = {
	{ "delete", 1 },
	{ "wal", 1 },
	{ "delete", 400 },
	{ "wal", 400 },
};

struct history {
	struct fake_block disk;
	size_t created; /* operations until the table was there */
	size_t acked[COMMITS]; /* and until each commit returned */
};

static void commit(struct database *d, uint64_t first, uint32_t rows)
{
	uint32_t i;

	if (rows > 1)
		ck_assert_int_eq(database_begin(d), 0);
	for (i = 0; i < rows; i++)
		ck_assert_int_eq(database_insert(d, first + i), 0);
	if (rows > 1)
		ck_assert_int_eq(database_commit(d), 0);
}

static void make_history(struct history *h, const char *journal, uint32_t rows)
{
	static struct vfs vfs;
	struct database d;
	unsigned i;

	fake_block_init(&h->disk, DISK, NULL);
	ck_assert_int_eq(vfs_init(&vfs, &h->disk.block), 0);
	ck_assert_msg(database_open(&d, VFS_DATABASE, VFS_NAME, journal) == 0,
		      "%s", d.why);
	h->created = h->disk.nr_ops;
	for (i = 0; i < COMMITS; i++) {
		commit(&d, 1 + (uint64_t)i * rows, rows);
		h->acked[i] = h->disk.nr_ops;
	}
	ck_assert_int_eq(database_close(&d), 0);
	vfs_fini(&vfs);
}

/* The database on @image, opened, recovered and checked. */
static uint64_t rows_after(const uint8_t *image, size_t cut, int fate)
{
	static struct vfs vfs;
	struct fake_block disk;
	struct database d;
	uint64_t rows = 0;
	int err;

	fake_block_init(&disk, DISK, image);
	ck_assert_int_eq(vfs_init(&vfs, &disk.block), 0);
	err = database_open(&d, VFS_DATABASE, VFS_NAME, NULL);
	if (!err)
		err = database_check(&d, &rows);
	ck_assert_msg(err == 0, "cut after %zu operations, fate %d: %s", cut,
		      fate, d.why);
	ck_assert_int_eq(database_close(&d), 0);
	vfs_fini(&vfs);
	fake_block_fini(&disk);
	return rows;
}

static void check_cut(const struct history *h, size_t cut, uint32_t rows_each,
		      uint8_t *image)
{
	uint64_t least = 0, rows;
	unsigned i, n;

	for (i = 0; i < COMMITS && h->acked[i] <= cut; i++)
		least += rows_each;
	for (i = 0; i < FAKE_MIXED + MIXES; i++) {
		n = i < FAKE_MIXED ? i : FAKE_MIXED;
		memset(image, 0, DISK);
		fake_block_cut(&h->disk, cut, (enum fake_fate)n, cut + i,
			       image);
		rows = rows_after(image, cut, (int)n);
		ck_assert_msg(rows >= least && rows % rows_each == 0,
			      "cut after %zu operations, fate %u: %llu rows, "
			      "%llu acknowledged",
			      cut, n, (unsigned long long)rows,
			      (unsigned long long)least);
	}
}

START_TEST(a_power_cut_anywhere_loses_no_commit)
{
	static struct history h;
	static uint8_t image[DISK];
	size_t cut;

	make_history(&h, cases[_i].journal, cases[_i].rows);
	for (cut = h.created; cut <= h.disk.nr_ops; cut++)
		check_cut(&h, cut, cases[_i].rows, image);
	fake_block_fini(&h.disk);
}
END_TEST

/* Else the benchmark would measure its own cache misses. */
START_TEST(one_row_commits_read_nothing)
{
	static struct vfs vfs;
	struct fake_block disk;
	struct database d;
	uint64_t reads = 0, i;

	fake_block_init(&disk, DISK, NULL);
	ck_assert_int_eq(vfs_init(&vfs, &disk.block), 0);
	ck_assert_int_eq(database_open(&d, VFS_DATABASE, VFS_NAME,
				       cases[_i].journal),
			 0);
	for (i = 1; i < 30; i++) {
		commit(&d, i, 1);
		if (i == 5)
			reads = disk.reads;
	}
	ck_assert_uint_eq(disk.reads, reads);
	ck_assert_int_eq(database_close(&d), 0);
	vfs_fini(&vfs);
	fake_block_fini(&disk);
}
END_TEST

START_TEST(a_full_disk_is_an_error_and_no_harm)
{
	static struct vfs vfs;
	struct fake_block disk;
	struct database d;
	uint64_t rows = 0, next = 1;
	uint32_t i;
	int err = 0;

	fake_block_init(&disk, VFS_DISK_MIN, NULL);
	ck_assert_int_eq(vfs_init(&vfs, &disk.block), 0);
	ck_assert_int_eq(database_open(&d, VFS_DATABASE, VFS_NAME,
				       cases[_i].journal),
			 0);
	while (!err && next < 100000) {
		ck_assert_int_eq(database_begin(&d), 0);
		for (i = 0; i < 1000 && !err; i++)
			err = database_insert(&d, next + i);
		if (!err)
			err = database_commit(&d);
		if (!err)
			next += 1000;
	}
	ck_assert_msg(strstr(d.why, "full"), "%s", d.why);
	database_close(&d);
	vfs_fini(&vfs);

	ck_assert_int_eq(vfs_init(&vfs, &disk.block), 0);
	err = database_open(&d, VFS_DATABASE, VFS_NAME, NULL);
	if (!err)
		err = database_check(&d, &rows);
	ck_assert_msg(err == 0, "%s", d.why);
	ck_assert_uint_eq(rows, next - 1);
	ck_assert_int_eq(database_close(&d), 0);
	vfs_fini(&vfs);
	fake_block_fini(&disk);
}
END_TEST

START_TEST(wiped_means_there_is_no_database)
{
	static struct vfs vfs;
	struct fake_block disk;
	struct database d;

	fake_block_init(&disk, DISK, NULL);
	ck_assert_int_eq(vfs_init(&vfs, &disk.block), 0);
	ck_assert(!vfs_has_database(&vfs));
	ck_assert_int_eq(database_open(&d, VFS_DATABASE, VFS_NAME, "delete"),
			 0);
	ck_assert_int_eq(database_close(&d), 0);
	ck_assert(vfs_has_database(&vfs));
	ck_assert_int_eq(vfs_wipe(&vfs), 0);
	vfs_fini(&vfs);
	ck_assert_int_eq(vfs_init(&vfs, &disk.block), 0);
	ck_assert(!vfs_has_database(&vfs));
	ck_assert_int_ne(database_open(&d, VFS_DATABASE, VFS_NAME, NULL), 0);
	database_close(&d);
	vfs_fini(&vfs);
	fake_block_fini(&disk);
}
END_TEST

START_TEST(a_lost_row_is_named)
{
	static char acked[] = "1\n3\n5\n77"; /* 77 was not finished */
	static struct vfs vfs;
	struct fake_block disk;
	struct database d;
	FILE *file;

	fake_block_init(&disk, DISK, NULL);
	ck_assert_int_eq(vfs_init(&vfs, &disk.block), 0);
	ck_assert_int_eq(database_open(&d, VFS_DATABASE, VFS_NAME, "delete"),
			 0);
	commit(&d, 1, 4);
	file = fmemopen(acked, strlen(acked), "r");
	ck_assert_int_ne(database_check_acked(&d, file), 0);
	ck_assert_msg(strstr(d.why, "row 5 "), "%s", d.why);
	commit(&d, 5, 1);
	rewind(file);
	ck_assert_int_eq(database_check_acked(&d, file), 0);
	fclose(file);
	ck_assert_int_eq(database_close(&d), 0);
	vfs_fini(&vfs);
	fake_block_fini(&disk);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("vfs");
	TCase *tc = tcase_create("vfs");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_add_tcase(suite, tc);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, a_power_cut_anywhere_loses_no_commit, 0,
			    (int)(sizeof(cases) / sizeof(cases[0])));
	tcase_add_loop_test(tc, one_row_commits_read_nothing, 0, 2);
	tcase_add_loop_test(tc, a_full_disk_is_an_error_and_no_harm, 0, 2);
	tcase_add_test(tc, wiped_means_there_is_no_database);
	tcase_add_test(tc, a_lost_row_is_named);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
