/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grammar of specs: what is accepted, and that what is not is refused with
 * the right error, one line that says why, and nothing created or kept open.
 */
#include <errno.h>
#include <sys/stat.h>
#include "drivers/image.h"
#include "drivers/options.h"
#include "tests/rig.h"

/* @ in a spec is the scratch directory; "disk" there is a 1 MiB file. */
static const struct bad {
	const char *spec;
	int want;
	const char *says; /* part of the one line logged */
} bad[] = {
	{ "", -EINVAL, "no colon" },
	{ "@/disk", -EINVAL, "no colon" },
	{ ":@/disk", -ENOENT, "unknown type" },
	{ "AIO:@/disk", -ENOENT, "unknown type" },
	{ "ai:@/disk", -ENOENT, "unknown type" },
	{ "aioo:@/disk", -ENOENT, "unknown type" },
	{ "1234567890123456789012345678901:x", -ENOENT, "unknown type" },
	{ "12345678901234567890123456789012:x", -ENAMETOOLONG, "31" },
	{ "aio:", -ENOENT, "No such file" },
	{ "aio:@/missing", -ENOENT, "@/missing" },
	{ "aio:@/disk/x", -ENOTDIR, "Not a directory" },
	{ "aio:@", -EISDIR, "directory" },
	{ "aio:/dev/null", -EINVAL, "neither file nor block device" },
	{ "aio:@/fifo", -EINVAL, "neither file nor block device" },
	{ "aio:@/empty", -ENODATA, "is empty" },
	{ "aio:@/1000", -EINVAL, "1000 bytes, not a whole number of 512-byte" },
	{ "aio:@/4608+1", -EINVAL, "4609 bytes" },
	{ "ram:", -EINVAL, "not a size" },
	{ "ram:0", -ENODATA, "is empty" },
	{ "ram:-1", -EINVAL, "not a size" },
	{ "ram:1 m", -EINVAL, "not a size" },
	{ "ram:1mm", -EINVAL, "not a size" },
	{ "ram:1M", -EINVAL, "not a size" },
	{ "ram:1000", -EINVAL, "whole number" },
	{ "ram:65g", -EINVAL, "64g" },
	{ "ram:99999999999999999999", -EINVAL, "not a size" },
	{ "ram:18014398509481985k", -EINVAL, "not a size" },
	{ "null:x", -EINVAL, "not a size" },
	{ "fault:ram:1m", -EINVAL, "no ';'" },
	{ "fault:op=read", -EINVAL, "no ';'" },
	{ "fault:;", -EINVAL, "no colon" },
	{ "fault:;disk", -EINVAL, "no colon" },
	{ "fault:;foo:1m", -ENOENT, "\"foo\"" },
	{ "fault:op=eat;ram:1m", -EINVAL, "\"op\": bad value \"eat\"" },
	{ "fault:op;ram:1m", -EINVAL, "\"op\": no value" },
	{ "fault:nth=0;ram:1m", -EINVAL, "\"nth\": bad value" },
	{ "fault:every=0;ram:1m", -EINVAL, "\"every\": bad value" },
	{ "fault:nth=1k;ram:1m", -EINVAL, "\"nth\": bad value" },
	{ "fault:nth=;ram:1m", -EINVAL, "\"nth\": bad value" },
	{ "fault:err=EWHAT;ram:1m", -EINVAL, "\"err\": bad value" },
	{ "fault:err=5;ram:1m", -EINVAL, "\"err\": bad value" },
	{ "fault:from=1t;ram:1m", -EINVAL, "\"from\": bad value" },
	{ "fault:short=all;ram:1m", -EINVAL, "\"short\": bad value" },
	{ "fault:nth=1,;ram:1m", -EINVAL, "option \"\"" },
	{ "fault:colour=red;ram:1m", -EINVAL, "unknown option \"colour\"" },
	{ "delay:;ram:1m", -EINVAL, "\"us\": missing" },
	{ "delay:us=0;ram:1m", -EINVAL, "\"us\": bad value" },
	{ "delay:us=86400000001;ram:1m", -EINVAL, "\"us\": bad value" },
	{ "delay:us=1,op=all;ram:1m", -EINVAL, "\"op\": bad value" },
	{ "record:;ram:1m", -EINVAL, "\"to\": missing" },
	{ "record:to=;ram:1m", -EINVAL, "\"to\": bad value" },
	{ "record:to=@/no/such;ram:1m", -ENOENT, "@/no/such" },
	{ "aio:@!aio:@/missing", -ENOENT, "@/missing" },
	{ "aio:@!vhd:@/disk", -ENOENT, "unknown type \"vhd\"" },
	{ "aio:@!", -EINVAL, "no colon" },
	{ "aio:@!ram:1", -EINVAL, "1 bytes" },
};

/* Write out the short hands of the table: see above; "@!" is a plain '@'. */
static void expand(const char *from, char *to, size_t size)
{
	size_t n = 0;

	for (; *from; from++) {
		if (*from != '@')
			to[n++] = *from;
		else if (from[1] == '!')
			to[n++] = *from++;
		else
			n += (size_t)snprintf(to + n, size - n, "%s",
					      getenv(SCRATCH_ENV));
		ck_assert_uint_lt(n, size);
	}
	to[n] = '\0';
}

static void make_file(const char *name, off_t bytes)
{
	char path[256];
	int fd;

	expand(name, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, bytes), 0);
	close(fd);
}

static void setup(void)
{
	char path[256];

	make_file("@/disk", 1 << 20);
	make_file("@/empty", 0);
	make_file("@/1000", 1000);
	make_file("@/4608+1", 4609);
	expand("@/fifo", path, sizeof(path));
	ck_assert(!mkfifo(path, 0600) || errno == EEXIST);
}

/* Field: T09, T10 */
START_TEST(bad_specs_are_refused_in_one_line)
{
	unsigned fds = scratch_descriptors(), lines;
	char spec[1024], says[256], log[4096];
	struct image *image = NULL;
	int err;

	expand(bad[_i].spec, spec, sizeof(spec));
	expand(bad[_i].says, says, sizeof(says));
	rig_log();
	err = image_open(spec, 0, &image);
	lines = rig_logged(log, sizeof(log));
	log_close();
	ck_assert_msg(err == bad[_i].want, "%s: %s, want %s", spec,
		      strerror(-err), strerror(-bad[_i].want));
	ck_assert_msg(lines == 1, "%s: %u lines: %s", spec, lines, log);
	ck_assert_msg(strstr(log, says) != NULL, "%s: no \"%s\" in %s", spec,
		      says, log);
	ck_assert_ptr_null(image);
	ck_assert_uint_eq(scratch_descriptors(), fds);
	expand("@/missing", spec, sizeof(spec));
	ck_assert_int_eq(access(spec, F_OK), -1);
}
END_TEST

static const struct good {
	const char *spec;
	uint64_t bytes;
	const char *driver; /* the layer that stats show */
	const char *name;
} good[] = {
	{ "aio:@/disk", 1 << 20, "aio", "@/disk" },
	{ "aio:@!aio:@/disk", 1 << 20, "aio", "@!aio:@/disk" },
	{ "aio:@!fault:nth=9;aio:@/disk", 1 << 20, "aio",
	  "@!fault:nth=9;aio:@/disk" },
	{ "aio:@!ram:3k", 3072, "aio", "@!ram:3k" },
	{ "ram:512", 512, "ram", "512" },
	{ "ram:64g", UINT64_C(64) << 30, "ram", "64g" },
	{ "null:8000000g", UINT64_C(8000000) << 30, "null", "8000000g" },
	{ "fault:;ram:1m", 1 << 20, "ram", "1m" },
	{ "fault:op=write,nth=3,err=EIO;aio:@/disk", 1 << 20, "aio", "@/disk" },
	{ "fault:every=2,from=1k,to=2m,short=512;ram:1m", 1 << 20, "ram",
	  "1m" },
	{ "delay:us=1;fault:;delay:us=2,op=flush;ram:1m", 1 << 20, "ram",
	  "1m" },
	{ "fault:;fault:;fault:;fault:;fault:;fault:;fault:;ram:1k", 1024,
	  "ram", "1k" },
};

START_TEST(good_specs_open_what_they_say)
{
	struct image_layer_stats layer;
	char spec[1024], name[1024];
	struct image *image;

	expand(good[_i].spec, spec, sizeof(spec));
	expand(good[_i].name, name, sizeof(name));
	ck_assert_int_eq(image_open(spec, 0, &image), 0);
	ck_assert_uint_eq(image_info(image)->bytes, good[_i].bytes);
	ck_assert_uint_eq(image_stats(image, &layer, 1), 1);
	ck_assert_str_eq(layer.driver, good[_i].driver);
	ck_assert_str_eq(layer.name, name);
	image_close(image);
}
END_TEST

/* With a store below, and with filters alone. */
START_TEST(no_more_than_eight_levels)
{
	static const char *const deep[] = {
		"fault:;fault:;fault:;fault:;fault:;fault:;fault:;fault:;ram:1",
		"fault:;fault:;fault:;fault:;fault:;fault:;fault:;aio:@/disk",
		"aio:@!fault:;fault:;fault:;fault:;fault:;fault:;fault:;ram:1k",
	};
	struct node *node;
	char spec[1024];

	expand(deep[_i], spec, sizeof(spec));
	ck_assert_int_eq(driver_open(spec, 0, &node), -ELOOP);
}
END_TEST

START_TEST(a_store_is_named_by_path_or_spec)
{
	char path[256], spec[300];
	struct node *node;

	expand("@/disk", path, sizeof(path));
	ck_assert_int_eq(driver_open_store(path, 0, &node), 0);
	ck_assert_str_eq(node->driver->name, "aio");
	ck_assert_ptr_null(node->below);
	driver_close(node);
	snprintf(spec, sizeof(spec), "@fault:;aio:%s", path);
	ck_assert_int_eq(driver_open_store(spec, 0, &node), 0);
	ck_assert_str_eq(node->driver->name, "fault");
	ck_assert_str_eq(node->below->driver->name, "aio");
	ck_assert_ptr_null(node->below->below); /* a store, not a disk */
	driver_close(node);
	ck_assert_int_eq(driver_open_store("@ram", 0, &node), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("spec");
	TCase *tcase = tcase_create("grammar");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_loop_test(tcase, bad_specs_are_refused_in_one_line, 0,
			    sizeof(bad) / sizeof(*bad));
	tcase_add_loop_test(tcase, good_specs_open_what_they_say, 0,
			    sizeof(good) / sizeof(*good));
	tcase_add_loop_test(tcase, no_more_than_eight_levels, 0, 3);
	tcase_add_test(tcase, a_store_is_named_by_path_or_spec);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
