/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aio: on real block devices: with 4096-byte sectors, read-only, without a
 * medium.  They are loop devices on files in the scratch directory, which
 * detach themselves when they are closed; without loop devices the tests pass
 * and say so.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include "drivers/image.h"
#include "tests/rig.h"

enum {
	BYTES = 1 << 20,
	SECTOR = 512,
	SECTORS = BYTES / SECTOR,
	BLOCK = 4096,
};

/* The same as in linux/loop.h since 5.8, for older headers. */
struct configure {
	uint32_t fd, block_size;
	struct loop_info64 info;
	uint64_t reserved[8];
};

enum {
	CONFIGURE = 0x4c0a,
};

/* Attach a file; a descriptor that keeps the device, or -1 with a word why. */
static int attach(char *device, size_t size, unsigned flags)
{
	struct configure configure = { .block_size = BLOCK };
	int control, number, fd = -1, file;
	char path[256];

	rig_file(path, sizeof(path), "backing", BYTES);
	configure.info.lo_flags = LO_FLAGS_AUTOCLEAR | flags;
	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	file = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(file, 0);
	configure.fd = (uint32_t)file;
	/* others look for a free one at the same time */
	for (unsigned tries = 0; control >= 0 && fd < 0 && tries < 20;
	     tries++) {
		number = ioctl(control, LOOP_CTL_GET_FREE);
		snprintf(device, size, "/dev/loop%d", number);
		fd = number < 0 ? -1 : open(device, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && ioctl(fd, CONFIGURE, &configure) < 0) {
			close(fd);
			fd = -1;
		}
	}
	if (fd < 0)
		printf("no loop device to be had: not tested\n");
	if (control >= 0)
		close(control);
	close(file);
	return fd;
}

static void use(struct rig *rig)
{
	char *disk = rig_buffer(BYTES), *buf = rig_buffer(BYTES);
	unsigned seed = 5;

	for (unsigned i = 0; i < 200; i++) {
		unsigned n = 1 + (unsigned)rand_r(&seed) % 24;
		unsigned from = (unsigned)rand_r(&seed) % (SECTORS - n);
		char *at = disk + from * SECTOR;

		if (i % 4 == 0) {
			memset(at, 0, n * SECTOR);
			ck_assert_int_eq(rig_do(rig, IO_WRITE_ZEROES,
						from * SECTOR, n * SECTOR,
						NULL),
					 0);
		} else {
			memset(at, rand_r(&seed), n * SECTOR);
			memcpy(buf + i % 7 * SECTOR, at, n * SECTOR);
			ck_assert_int_eq(rig_do(rig, IO_WRITE, from * SECTOR,
						n * SECTOR,
						buf + i % 7 * SECTOR),
					 0);
		}
	}
	ck_assert_int_eq(rig_do(rig, IO_FLUSH, 0, 0, NULL), 0);
	ck_assert_int_eq(rig_do(rig, IO_READ, 0, BYTES, buf), 0);
	ck_assert_mem_eq(buf, disk, BYTES);
	for (unsigned s = 0; s < SECTORS; s += 3) {
		ck_assert_int_eq(rig_do(rig, IO_READ, s * SECTOR, SECTOR, buf),
				 0);
		ck_assert_mem_eq(buf, disk + s * SECTOR, SECTOR);
	}
	ck_assert_int_eq(rig_do(rig, IO_DISCARD, SECTOR, 5 * BLOCK, NULL), 0);
	ck_assert_int_eq(rig_do(rig, IO_READ, 0, SECTOR, buf), 0);
	ck_assert_mem_eq(buf, disk, SECTOR);
	free(disk);
	free(buf);
}

/* Past the page cache, and through it. */
START_TEST(sectors_work_on_a_disk_of_4096_byte_blocks)
{
	static const unsigned flags[] = { 0, DRIVER_BUFFERED };
	char device[64], spec[80];
	struct rig rig;
	int fd;

	fd = attach(device, sizeof(device), 0);
	if (fd < 0)
		return;
	snprintf(spec, sizeof(spec), "aio:%s", device);
	rig_open(&rig, spec, flags[_i]);
	ck_assert_uint_eq(rig.node->info.bytes, BYTES);
	ck_assert_uint_eq(rig.node->info.logical_block, SECTOR);
	ck_assert_uint_eq(rig.node->info.physical_block, BLOCK);
	ck_assert_uint_eq(rig.node->below->info.logical_block,
			  _i ? SECTOR : BLOCK);
	use(&rig);
	rig_close(&rig);
	close(fd);
}
END_TEST

START_TEST(a_read_only_device_opens_read_only)
{
	char device[64], spec[80], *buf = rig_buffer(BLOCK);
	struct image *image;
	struct rig rig;
	int fd, err;

	fd = attach(device, sizeof(device), LO_FLAGS_READ_ONLY);
	if (fd >= 0) {
		snprintf(spec, sizeof(spec), "aio:%s", device);
		err = image_open(spec, 0, &image);
		ck_assert_int_eq(err, -EROFS);
		rig_open(&rig, spec, DRIVER_RDONLY);
		ck_assert_int_eq(rig_do(&rig, IO_READ, 0, BLOCK, buf), 0);
		rig_close(&rig);
		close(fd);
	}
	free(buf);
}
END_TEST

START_TEST(a_device_without_a_medium_is_refused)
{
	char spec[80];
	struct image *image;
	int control, number, err;

	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	if (number < 0) {
		printf("no loop device to be had: not tested\n");
		return;
	}
	close(control);
	snprintf(spec, sizeof(spec), "aio:/dev/loop%d", number);
	err = image_open(spec, 0, &image);
	if (!err) /* somebody has just attached it */
		image_close(image);
	ck_assert_msg(!err || err == -ENOMEDIUM, "%s", strerror(-err));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("block");
	TCase *tcase = tcase_create("loop");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, sectors_work_on_a_disk_of_4096_byte_blocks,
			    0, 2);
	tcase_add_test(tcase, a_read_only_device_opens_read_only);
	tcase_add_test(tcase, a_device_without_a_medium_is_refused);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
