/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What image_extents says of a range: whatever is called zero reads as zeros,
 * and the pieces fit the disk's blocks.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "drivers/image.h"
#include "poll/wait.h"
#include "tests/scratch.h"

enum {
	KIB = 1024,
	DISK = 1024 * KIB,
	MANY = 16,
};

static struct wait wait;
static struct image *image;
static struct image_port *port;

static void open_disk(const char *spec)
{
	ck_assert_int_eq(wait_init(&wait, false), 0);
	ck_assert_int_eq(image_open(spec, 0, &image), 0);
	ck_assert_int_eq(image_port_open(image, &wait, 4, &port), 0);
}

static void close_disk(void)
{
	image_port_close(port);
	image_close(image);
	wait_fini(&wait);
}

/* A sparse file with data in the 64 KiB at @data, -1: nowhere. */
static void open_sparse(const char *filter, off_t data)
{
	static const char bytes[64 * KIB] = { 1 };
	char path[256], spec[300];
	int fd;

	snprintf(path, sizeof(path), "%s/sparse", getenv(SCRATCH_ENV));
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, DISK), 0);
	if (data >= 0)
		ck_assert_int_eq(pwrite(fd, bytes, sizeof(bytes), data),
				 sizeof(bytes));
	close(fd);
	snprintf(spec, sizeof(spec), "%saio:%s", filter, path);
	open_disk(spec);
}

static const struct {
	const char *why;
	const char *filter;
	off_t data;
	uint64_t offset, len;
	unsigned max;
	int n;
	struct extent want[3];
} cases[] = {
	{ "nothing written",
	  "",
	  -1,
	  0,
	  DISK,
	  MANY,
	  1,
	  { { DISK, EXTENT_ZERO } } },
	{ "data in the middle",
	  "",
	  256 * KIB,
	  0,
	  DISK,
	  MANY,
	  3,
	  { { 256 * KIB, EXTENT_ZERO },
	    { 64 * KIB, EXTENT_DATA },
	    { 704 * KIB, EXTENT_ZERO } } },
	{ "below a filter",
	  "delay:us=1;",
	  256 * KIB,
	  0,
	  DISK,
	  MANY,
	  3,
	  { { 256 * KIB, EXTENT_ZERO },
	    { 64 * KIB, EXTENT_DATA },
	    { 704 * KIB, EXTENT_ZERO } } },
	{ "a part of the data",
	  "",
	  256 * KIB,
	  264 * KIB,
	  8 * KIB,
	  MANY,
	  1,
	  { { 8 * KIB, EXTENT_DATA } } },
	{ "from within the hole",
	  "",
	  256 * KIB,
	  255 * KIB,
	  2 * KIB,
	  MANY,
	  2,
	  { { KIB, EXTENT_ZERO }, { KIB, EXTENT_DATA } } },
	{ "one extent",
	  "",
	  256 * KIB,
	  0,
	  DISK,
	  1,
	  1,
	  { { 256 * KIB, EXTENT_ZERO } } },
	{ "out of the disk", "", -1, DISK, 512, MANY, -EIO, { { 0 } } },
	{ "a part of a block", "", -1, 0, 100, MANY, -EINVAL, { { 0 } } },
	{ "nothing at all", "", -1, 0, 0, MANY, -EINVAL, { { 0 } } },
};

START_TEST(holes_of_a_file_are_zeros)
{
	struct extent got[MANY];
	int n;

	open_sparse(cases[_i].filter, cases[_i].data);
	n = image_extents(port, cases[_i].offset, cases[_i].len, got,
			  cases[_i].max);
	ck_assert_msg(n == cases[_i].n, "%s: %d", cases[_i].why, n);
	for (int i = 0; i < n; i++)
		ck_assert_msg(got[i].len == cases[_i].want[i].len &&
				      got[i].kind == cases[_i].want[i].kind,
			      "%s: extent %d", cases[_i].why, i);
	close_disk();
}
END_TEST

START_TEST(who_cannot_tell_has_data)
{
	struct extent got[MANY];

	open_disk("ram:1m");
	ck_assert_int_eq(image_extents(port, 512, 1024, got, MANY), 1);
	ck_assert_uint_eq(got[0].len, 1024);
	ck_assert_int_eq(got[0].kind, EXTENT_DATA);
	close_disk();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("extents");
	TCase *tc = tcase_create("extents");
	SRunner *runner;
	int failed;

	scratch_open();
	tcase_add_loop_test(tc, holes_of_a_file_are_zeros, 0,
			    sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(tc, who_cannot_tell_has_data);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
