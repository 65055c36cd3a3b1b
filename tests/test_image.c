/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules that hold for every format: bounds, read-only, the flush that
 * failed once, and what is counted.
 */
#include <errno.h>
#include "drivers/image.h"
#include "tests/rig.h"

enum {
	MIB = 1 << 20,
};

struct disk {
	struct image *image;
	struct wait wait;
	struct image_port *port;
};

static void open_port(struct disk *disk, struct image *image)
{
	disk->image = image;
	ck_assert_int_eq(wait_init(&disk->wait, false), 0);
	ck_assert_int_eq(image_port_open(image, &disk->wait, 16, &disk->port),
			 0);
}

static void close_port(struct disk *disk)
{
	image_port_close(disk->port);
	wait_fini(&disk->wait);
}

static void open_disk(struct disk *disk, const char *spec, unsigned flags)
{
	struct image *image;

	ck_assert_int_eq(image_open(spec, flags, &image), 0);
	open_port(disk, image);
}

static void close_disk(struct disk *disk)
{
	close_port(disk);
	image_close(disk->image);
}

static int finish(struct disk *disk, struct rig_io *r)
{
	while (!r->dones)
		if (!image_turn(disk->port))
			wait_for(&disk->wait, false, false);
	ck_assert_uint_eq(r->dones, 1);
	ck_assert_ptr_eq(r->io.done, rig_done);
	return r->err;
}

static int do_io(struct disk *disk, enum io_op op, uint64_t offset,
		 uint64_t len, void *buf)
{
	struct rig_io r = {
		.io = { .op = op,
			.offset = offset,
			.len = len,
			.buf = buf,
			.done = rig_done },
	};

	image_submit(disk->port, &r.io);
	return finish(disk, &r);
}

static const struct range {
	uint64_t offset, len;
	int want;
	const char *why;
} ranges[] = {
	{ 0, 512, 0, "first sector" },
	{ MIB - 512, 512, 0, "last sector" },
	{ 0, MIB, 0, "all" },
	{ MIB, 0, 0, "nothing, at the end" },
	{ MIB, 512, -EIO, "just past the end" },
	{ MIB - 512, 1024, -EIO, "over the end" },
	{ 0, MIB + 512, -EIO, "longer than the disk" },
	{ UINT64_C(1) << 63, 512, -EIO, "far away" },
	{ UINT64_MAX - 511, 512, -EIO, "a sum of 2^64" },
	{ UINT64_MAX - 511, 1024, -EIO, "a sum beyond 2^64" },
	{ 1024, UINT64_MAX - 511, -EIO, "a length that wraps" },
	{ UINT64_MAX - 511, UINT64_MAX - 511, -EIO, "both" },
	{ MIB + 512, 0, -EIO, "nothing, past the end" },
	{ 1, 512, -EINVAL, "not at a sector" },
	{ 512, 513, -EINVAL, "not whole sectors" },
};

static const enum io_op ranged_ops[] = { IO_READ, IO_WRITE, IO_DISCARD,
					 IO_WRITE_ZEROES };

START_TEST(nothing_leaves_the_disk)
{
	const struct range *range = &ranges[_i];
	char *buf = rig_buffer(2 * MIB);
	struct disk disk;
	int err;

	open_disk(&disk, "ram:1m", 0);
	for (size_t i = 0; i < sizeof(ranged_ops) / sizeof(*ranged_ops); i++) {
		err = do_io(&disk, ranged_ops[i], range->offset, range->len,
			    buf);
		ck_assert_msg(err == range->want, "op %d: %s: %s",
			      ranged_ops[i], range->why, strerror(-err));
	}
	close_disk(&disk);
	free(buf);
}
END_TEST

START_TEST(a_read_only_disk_is_not_written)
{
	char path[256], spec[300], *buf = rig_buffer(4096);
	struct disk disk;

	rig_file(path, sizeof(path), "ro", MIB);
	snprintf(spec, sizeof(spec), "aio:%s", path);
	open_disk(&disk, spec, DRIVER_RDONLY);
	ck_assert(!image_writable(disk.image));
	ck_assert_int_eq(do_io(&disk, IO_WRITE, 0, 4096, buf), -EPERM);
	ck_assert_int_eq(do_io(&disk, IO_DISCARD, 0, 4096, NULL), -EPERM);
	ck_assert_int_eq(do_io(&disk, IO_WRITE_ZEROES, 0, 4096, NULL), -EPERM);
	ck_assert_int_eq(do_io(&disk, IO_READ, 0, 4096, buf), 0);
	ck_assert_int_eq(do_io(&disk, IO_FLUSH, 0, 0, NULL), 0);
	close_disk(&disk);
	open_disk(&disk, spec, 0);
	ck_assert(image_writable(disk.image));
	ck_assert_int_eq(do_io(&disk, IO_WRITE, 0, 4096, buf), 0);
	close_disk(&disk);
	free(buf);
}
END_TEST

/* On every port, until the image is opened again. */
START_TEST(a_failed_flush_stays_failed)
{
	char *buf = rig_buffer(512);
	struct disk a, b;

	open_disk(&a, "fault:op=flush,nth=2,err=ENOSPC;ram:1m", 0);
	open_port(&b, a.image);
	ck_assert_int_eq(do_io(&a, IO_FLUSH, 0, 0, NULL), 0);
	ck_assert_int_eq(do_io(&a, IO_FLUSH, 0, 0, NULL), -ENOSPC);
	ck_assert_int_eq(do_io(&a, IO_FLUSH, 0, 0, NULL), -EIO);
	ck_assert_int_eq(do_io(&b, IO_FLUSH, 0, 0, NULL), -EIO);
	ck_assert_int_eq(do_io(&a, IO_WRITE, 0, 512, buf), 0);
	ck_assert_int_eq(do_io(&a, IO_FLUSH, 0, 0, NULL), -EIO);
	close_port(&b);
	close_disk(&a);
	open_disk(&a, "ram:1m", 0);
	ck_assert_int_eq(do_io(&a, IO_FLUSH, 0, 0, NULL), 0);
	close_disk(&a);
	free(buf);
}
END_TEST

/* It was in flight while another failed: the error may have been its own. */
START_TEST(a_flush_that_a_failed_one_overtook_fails)
{
	struct rig_io slow = { .io = { .op = IO_FLUSH, .done = rig_done } };
	struct disk a, b;

	/* the first is held up, and the second, of another thread, fails */
	open_disk(&a, "fault:op=flush,nth=2;delay:us=1000;ram:1m", 0);
	open_port(&b, a.image);
	image_submit(a.port, &slow.io);
	ck_assert_uint_eq(slow.dones, 0);
	ck_assert_int_eq(do_io(&b, IO_FLUSH, 0, 0, NULL), -EIO);
	ck_assert_int_eq(finish(&a, &slow), -EIO);
	close_port(&b);
	close_disk(&a);
}
END_TEST

/*
 * The kernel tells one flush of lost pages: two at a time, and the one that
 * was told nothing might be answered first.
 */
START_TEST(flushes_that_come_meanwhile_wait_and_share_the_next)
{
	struct rig_io flush[4];
	struct disk a;

	/* the first is fine; the second, which the others share, fails */
	open_disk(&a, "delay:us=2000;fault:op=flush,nth=2,err=EIO;ram:1m", 0);
	for (unsigned i = 0; i < 4; i++) {
		flush[i] = (struct rig_io){ .io = { .op = IO_FLUSH,
						    .done = rig_done } };
		image_submit(a.port, &flush[i].io);
	}
	ck_assert_uint_eq(image_in_flight(a.port), 4);
	ck_assert_int_eq(finish(&a, &flush[0]), 0);
	for (unsigned i = 1; i < 4; i++) {
		ck_assert_uint_eq(flush[i].dones, 0);
	}
	for (unsigned i = 1; i < 4; i++)
		ck_assert_int_eq(finish(&a, &flush[i]), -EIO);
	ck_assert_uint_eq(image_in_flight(a.port), 0);
	close_disk(&a);
}
END_TEST

static const char *const transient[] = { "EAGAIN", "EBUSY", "EINTR", "ENOMEM" };

START_TEST(a_flush_that_was_not_tried_may_be_tried_again)
{
	struct disk a;
	char spec[100];

	snprintf(spec, sizeof(spec), "fault:op=flush,nth=1,err=%s;ram:1m",
		 transient[_i]);
	open_disk(&a, spec, 0);
	ck_assert_int_lt(do_io(&a, IO_FLUSH, 0, 0, NULL), 0);
	ck_assert_int_eq(do_io(&a, IO_FLUSH, 0, 0, NULL), 0);
	close_disk(&a);
}
END_TEST

START_TEST(stats_count_what_is_done)
{
	struct image_layer_stats layer;
	char *buf = rig_buffer(4096);
	struct disk a, b;

	open_disk(&a, "fault:op=read,nth=2;fault:op=write,every=3;ram:1m", 0);
	open_port(&b, a.image);
	for (unsigned i = 0; i < 6; i++)
		do_io(i % 2 ? &a : &b, IO_WRITE, 0, 4096, buf);
	for (unsigned i = 0; i < 4; i++)
		do_io(&a, IO_READ, 0, 4096, buf);
	do_io(&a, IO_READ, MIB, 4096, buf);
	do_io(&a, IO_FLUSH, 0, 0, NULL);
	ck_assert_uint_eq(image_stats(a.image, &layer, 0), 0);
	ck_assert_uint_eq(image_stats(a.image, &layer, 1), 1);
	ck_assert_str_eq(layer.name, "1m");
	ck_assert_str_eq(layer.driver, "ram");
	ck_assert_int_eq(layer.driver_type, 5);
	ck_assert_uint_eq(layer.writes, 6);
	ck_assert_uint_eq(layer.write_errors, 2);
	ck_assert_uint_eq(layer.reads, 5);
	ck_assert_uint_eq(layer.read_errors, 2);
	close_port(&b);
	close_disk(&a);
	free(buf);
}
END_TEST

START_TEST(in_flight_is_what_was_not_done)
{
	char *buf = rig_buffer(3 * 512);
	struct rig_io r[3];
	struct disk a;

	open_disk(&a, "delay:us=100;ram:1m", 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(image_in_flight(a.port), i);
		r[i] = (struct rig_io){
			.io = { .op = IO_READ,
				.len = 512,
				.buf = buf + i * 512,
				.done = rig_done },
		};
		image_submit(a.port, &r[i].io);
	}
	ck_assert_int_eq(do_io(&a, IO_READ, MIB, 512, buf), -EIO);
	ck_assert_uint_eq(image_in_flight(a.port), 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(finish(&a, &r[i]), 0);
	ck_assert_uint_eq(image_in_flight(a.port), 0);
	close_disk(&a);
	free(buf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("image");
	TCase *tcase = tcase_create("rules");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, nothing_leaves_the_disk, 0,
			    sizeof(ranges) / sizeof(*ranges));
	tcase_add_test(tcase, a_read_only_disk_is_not_written);
	tcase_add_test(tcase, a_failed_flush_stays_failed);
	tcase_add_test(tcase, a_flush_that_a_failed_one_overtook_fails);
	tcase_add_test(tcase,
		       flushes_that_come_meanwhile_wait_and_share_the_next);
	tcase_add_loop_test(
		tcase, a_flush_that_was_not_tried_may_be_tried_again, 0, 4);
	tcase_add_test(tcase, stats_count_what_is_done);
	tcase_add_test(tcase, in_flight_is_what_was_not_done);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
