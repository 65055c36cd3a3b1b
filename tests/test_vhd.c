/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading VHDs: against a model of what the layers of a chain hold, and from
 * files that are not what they should be.  "test_vhd dump SPEC FILE" copies a
 * disk to a file, for tests/it_vhd.py.
 */
#include <endian.h>
#include <errno.h>
#include <sys/stat.h>
#include "drivers/image.h"
#include "drivers/vhd_format.h"
#include "tests/dice.h"
#include "tests/rig.h"

enum {
	SECTOR = 512,
	KIB = 1024,
	DISK = 1 << 20,
	BAT = 1536,
	LOCATOR = 8192, /* far enough for any BAT here */
	DATA = 16384,
};

/* A VHD to be made, and afterwards what its disk holds. */
struct made {
	char path[256];
	uint32_t block;
	uint64_t bytes;
	uint8_t id;
	uint8_t parent_id; /* 0: raw, if there is a parent */
	const char *parent; /* NULL: dynamic */
	unsigned skew; /* sectors between metadata and data */
	uint8_t *disk; /* bytes, of what lies below at first */
	off_t last; /* where the last block's data begin */
};

static void put(int fd, const void *buf, size_t len, off_t at)
{
	ck_assert_int_eq(pwrite(fd, buf, len, at), (ssize_t)len);
}

static void build_footer(const struct made *m, uint8_t out[SECTOR])
{
	struct vhd_format_footer footer = {
		.type = m->parent ? VHD_FORMAT_DIFFERENCING
				  : VHD_FORMAT_DYNAMIC,
		.header_offset = 512,
		.original_bytes = m->bytes,
		.bytes = m->bytes,
		.creator = "tap",
		.id = { m->id },
	};

	vhd_format_build_footer(&footer, out);
}

/* A block of random sectors at @at.  Returns where the next may be. */
static off_t make_block(struct made *m, int fd, struct dice *dice, uint32_t nr,
			off_t at)
{
	uint32_t bitmap = vhd_format_bitmap_bytes(m->block);
	uint8_t map[4096] = { 0 }, sector[SECTOR];
	bool bit = dice_below(dice, 2), all = dice_below(dice, 4) == 0;
	uint64_t pos;

	for (uint32_t i = 0; i < m->block / SECTOR; i++) {
		if (dice_below(dice, 8) == 0)
			bit = !bit;
		/* what the bitmap hides must not be seen */
		memset(sector,
		       all || bit ? (int)(1 + dice_below(dice, 200)) : 0xee,
		       SECTOR);
		sector[0] = m->id;
		put(fd, sector, SECTOR, at + bitmap + i * SECTOR);
		pos = (uint64_t)nr * m->block + i * SECTOR;
		if (!all && !bit)
			continue;
		vhd_format_set_bit(map, i);
		if (pos < m->bytes)
			memcpy(m->disk + pos, sector, SECTOR);
	}
	put(fd, map, bitmap, at);
	m->last = at + bitmap;
	return at + bitmap + m->block;
}

static void put_locator(struct made *m, int fd,
			struct vhd_format_header *header)
{
	char url[300];
	int n = snprintf(url, sizeof(url), "file://%s", m->parent);

	header->locators[0] = (struct vhd_format_locator){
		.code = 0x4d616358,
		.space = 512,
		.len = (uint32_t)n,
		.offset = LOCATOR,
	};
	header->parent_id[0] = m->parent_id;
	put(fd, url, (size_t)n, LOCATOR);
}

/* Write @m with random blocks in a random order. */
static void make(struct made *m, const char *name, uint64_t seed)
{
	struct dice dice = { seed };
	struct vhd_format_header header = { .bat_offset = BAT };
	uint8_t footer[SECTOR], bytes[VHD_FORMAT_HEADER];
	uint32_t bat[1024], n, first;
	off_t at = DATA + (off_t)m->skew * SECTOR;
	int fd;

	header.block = m->block;
	n = (uint32_t)((m->bytes + m->block - 1) / m->block);
	header.entries = n;
	ck_assert_uint_le(n, 1024);
	rig_file(m->path, sizeof(m->path), name, at);
	fd = open(m->path, O_RDWR);
	build_footer(m, footer);
	put(fd, footer, SECTOR, 0);
	if (m->parent)
		put_locator(m, fd, &header);
	memset(bat, 0xff, sizeof(bat));
	first = (uint32_t)dice_below(&dice, n);
	for (uint32_t i = 0, nr; i < n; i++) {
		nr = (first + i * 7) % n;
		if (bat[nr] != UINT32_MAX || dice_below(&dice, 2))
			continue;
		bat[nr] = htobe32((uint32_t)(at / SECTOR));
		at = make_block(m, fd, &dice, nr, at);
	}
	vhd_format_build_header(&header, bytes);
	put(fd, bytes, sizeof(bytes), 512);
	put(fd, bat, n * 4, BAT);
	put(fd, footer, SECTOR, at);
	close(fd);
}

static int try_open(const char *path, unsigned flags)
{
	char spec[300];
	struct image *image;
	int err;

	snprintf(spec, sizeof(spec), "vhd:%s", path);
	err = image_open(spec, flags, &image);
	if (!err)
		image_close(image);
	return err;
}

/* Everything, and many parts at a time, are what the model says. */
static void compare(const char *spec, const uint8_t *disk, uint64_t bytes,
		    unsigned flags, uint64_t seed)
{
	enum { NR = 16, MAX = 64 * KIB };
	struct dice dice = { seed };
	struct rig_io r[NR];
	char *buf = rig_buffer(bytes), *parts[NR];
	struct rig rig;

	rig_open(&rig, spec, flags | DRIVER_RDONLY);
	ck_assert_uint_eq(rig.node->info.bytes, bytes);
	for (unsigned i = 0; i < NR; i++)
		parts[i] = rig_buffer(MAX + SECTOR);
	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < NR; i++) {
			uint64_t len = 1 + dice_below(&dice, MAX / SECTOR);
			uint64_t at;

			len *= SECTOR;
			if (len > bytes)
				len = bytes;
			at = dice_below(&dice, (bytes - len) / SECTOR + 1);
			/* buffers of guests are aligned to sectors only */
			rig_submit(&rig, &r[i], IO_READ, at * SECTOR, len,
				   parts[i] + SECTOR * dice_below(&dice, 2));
		}
		for (unsigned i = 0; i < NR; i++) {
			ck_assert_int_eq(rig_finish(&rig, &r[i]), 0);
			ck_assert_mem_eq(r[i].io.buf, disk + r[i].io.offset,
					 r[i].io.len);
		}
	}
	ck_assert_int_eq(rig_do(&rig, IO_READ, 0, bytes, buf), 0);
	ck_assert_mem_eq(buf, disk, bytes);
	rig_close(&rig);
	for (unsigned i = 0; i < NR; i++)
		free(parts[i]);
	free(buf);
}

static const struct {
	uint32_t block;
	uint64_t bytes;
	unsigned skew;
	const char *filter; /* below */
	unsigned flags;
	const char *why;
} shapes[] = {
	{ 64 * KIB, DISK, 7, "", 0, "data at whole pages" },
	{ 64 * KIB, DISK, 0, "", 0, "data at odd sectors" },
	{ 64 * KIB, DISK, 0, "", DRIVER_BUFFERED, "the page cache" },
	{ 64 * KIB, DISK - 31 * KIB - SECTOR, 7, "", 0, "a partial block" },
	{ 4 * KIB, DISK, 7, "", 0, "small blocks" },
	{ 2 * KIB * KIB, 3 * DISK, 7, "", 0, "blocks of 2 MiB" },
	{ 64 * KIB, DISK, 3, "@delay:us=20,op=read;aio:", 0, "a slow store" },
};

START_TEST(a_dynamic_disk_is_what_its_blocks_say)
{
	struct made m = {
		.block = shapes[_i].block,
		.bytes = shapes[_i].bytes,
		.id = 1,
		.skew = shapes[_i].skew,
	};
	char spec[400];

	for (uint64_t seed = 1; seed <= 3; seed++) {
		m.disk = calloc(1, m.bytes);
		make(&m, "d.vhd", seed);
		snprintf(spec, sizeof(spec), "vhd:%s%s", shapes[_i].filter,
			 m.path);
		compare(spec, m.disk, m.bytes, shapes[_i].flags, seed);
		free(m.disk);
		unlink(m.path);
	}
}
END_TEST

/* Layer 0 is the bottom. */
static void chain(struct made *made, unsigned n, const uint32_t *blocks,
		  unsigned nr_blocks)
{
	char name[32];

	for (unsigned i = 0; i < n; i++) {
		struct made *m = &made[i];

		*m = (struct made){
			.block = blocks[i % nr_blocks],
			.bytes = DISK,
			.id = (uint8_t)(i + 1),
			.skew = i % 8,
			.disk = calloc(1, DISK),
		};
		if (i) {
			m->parent = made[i - 1].path;
			m->parent_id = made[i - 1].id;
			memcpy(m->disk, made[i - 1].disk, DISK);
		}
		snprintf(name, sizeof(name), "l%u.vhd", i);
		make(m, name, i + 1);
	}
}

static void free_chain(struct made *made, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		free(made[i].disk);
		unlink(made[i].path);
	}
}

static const struct {
	unsigned n;
	uint32_t blocks[2];
	unsigned nr_blocks;
} chains[] = {
	{ 2, { 64 * KIB }, 1 },
	{ 5, { 64 * KIB, 16 * KIB }, 2 },
	{ 30, { 64 * KIB }, 1 },
	{ 32, { 4 * KIB, 128 * KIB }, 2 },
};

START_TEST(a_chain_is_its_layers_over_each_other)
{
	struct made made[32];
	unsigned n = chains[_i].n;
	char spec[300];

	chain(made, n, chains[_i].blocks, chains[_i].nr_blocks);
	snprintf(spec, sizeof(spec), "vhd:%s", made[n - 1].path);
	compare(spec, made[n - 1].disk, DISK, 0, 9);
	free_chain(made, n);
}
END_TEST

START_TEST(a_chain_has_a_limit)
{
	struct made made[33];
	uint32_t block = 64 * KIB;

	chain(made, 33, &block, 1);
	ck_assert_int_eq(try_open(made[32].path, DRIVER_RDONLY), -ELOOP);
	ck_assert_int_eq(try_open(made[31].path, DRIVER_RDONLY), 0);
	free_chain(made, 33);
}
END_TEST

START_TEST(a_cycle_is_refused)
{
	struct made m = { .block = 64 * KIB, .bytes = DISK, .id = 1 };
	char name[64];

	m.parent_id = 1;
	m.disk = calloc(1, DISK);
	snprintf(name, sizeof(name), "./loop-%d", (int)getpid());
	m.parent = name;
	make(&m, "loop", 1);
	ck_assert_int_eq(try_open(m.path, DRIVER_RDONLY), -ELOOP);
	free(m.disk);
	unlink(m.path);
}
END_TEST

START_TEST(a_raw_parent_may_be_shorter)
{
	const uint64_t raw_bytes = DISK / 2 - SECTOR;
	struct made m = { .block = 64 * KIB, .bytes = DISK, .id = 1 };
	char raw[256], spec[300];
	int fd;

	m.disk = calloc(1, DISK);
	memset(m.disk, 0x77, raw_bytes);
	rig_file(raw, sizeof(raw), "raw", 0);
	fd = open(raw, O_RDWR);
	put(fd, m.disk, raw_bytes, 0);
	close(fd);
	m.parent = raw;
	make(&m, "child", 4);
	snprintf(spec, sizeof(spec), "vhd:%s", m.path);
	compare(spec, m.disk, DISK, 0, 3);
	free(m.disk);
	unlink(raw);
	ck_assert_int_eq(try_open(m.path, DRIVER_RDONLY), -ENOENT);
	unlink(m.path);
}
END_TEST

START_TEST(a_parent_is_found_beside_what_a_link_leads_to)
{
	struct made made[2];
	uint32_t block = 64 * KIB;
	char link[256], name[64], dir[256];

	chain(made, 1, &block, 1);
	made[1] = (struct made){ .block = block,
				 .bytes = DISK,
				 .id = 2,
				 .parent_id = 1,
				 .disk = calloc(1, DISK) };
	snprintf(name, sizeof(name), "./l0.vhd-%d", (int)getpid());
	made[1].parent = name;
	make(&made[1], "l1.vhd", 2);
	scratch_path(dir, sizeof(dir), "dir");
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	snprintf(link, sizeof(link), "%.200s/link", dir);
	ck_assert_int_eq(symlink(made[1].path, link), 0);
	ck_assert_int_eq(try_open(link, DRIVER_RDONLY), 0);
	free_chain(made, 2);
	unlink(link);
	rmdir(dir);
}
END_TEST

static void patch(const char *path, const void *buf, size_t len, off_t at)
{
	int fd = open(path, O_RDWR);

	put(fd, buf, len, at < 0 ? lseek(fd, 0, SEEK_END) + at : at);
	close(fd);
}

static off_t size_of(const char *path)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_size;
}

static void forge(const struct made *m, enum vhd_format_type type, off_t at)
{
	struct vhd_format_footer footer = {
		.type = type,
		.header_offset = 512,
		.bytes = DISK,
		.id = { 99 },
	};
	uint8_t bytes[SECTOR];

	vhd_format_build_footer(&footer, bytes);
	patch(m->path, bytes, SECTOR, at);
}

static void first_spoilt(const struct made *m)
{
	patch(m->path, "X", 1, 100);
}

static void last_spoilt(const struct made *m)
{
	patch(m->path, "X", 1, -400);
}

static void both_spoilt(const struct made *m)
{
	first_spoilt(m);
	last_spoilt(m);
}

static void last_gone(const struct made *m)
{
	ck_assert_int_eq(truncate(m->path, size_of(m->path) - SECTOR), 0);
}

static void slack(const struct made *m)
{
	ck_assert_int_eq(truncate(m->path, size_of(m->path) + DISK), 0);
}

static void last_forged(const struct made *m)
{
	last_gone(m);
	forge(m, VHD_FORMAT_DIFFERENCING, -SECTOR);
	/* the guest's own sector is what it wrote */
}

static void last_forged_fixed(const struct made *m)
{
	last_gone(m);
	forge(m, VHD_FORMAT_FIXED, -SECTOR);
}

static void cut(const struct made *m)
{
	ck_assert_int_eq(truncate(m->path, size_of(m->path) * 6 / 10), 0);
}

static void empty(const struct made *m)
{
	ck_assert_int_eq(truncate(m->path, 0), 0);
}

static void tiny(const struct made *m)
{
	ck_assert_int_eq(truncate(m->path, SECTOR), 0);
}

static void header_spoilt(const struct made *m)
{
	patch(m->path, "X", 1, 512 + 800);
}

static void no_locator(const struct made *m)
{
	forge(m, VHD_FORMAT_DIFFERENCING, 0);
}

static void poisoned(const struct made *m)
{
	struct vhd_format_footer footer = {
		.type = VHD_FORMAT_DYNAMIC,
		.poisoned = true,
		.header_offset = 512,
		.bytes = DISK,
	};
	uint8_t bytes[SECTOR];

	vhd_format_build_footer(&footer, bytes);
	patch(m->path, bytes, SECTOR, 0);
}

static const struct {
	void (*spoil)(const struct made *m);
	int want;
	const char *line; /* a part of what is logged */
} files[] = {
	{ first_spoilt, 0, NULL },
	{ last_spoilt, 0, NULL },
	{ last_gone, 0, NULL },
	{ slack, 0, NULL },
	{ last_forged, 0, NULL },
	{ both_spoilt, -EINVAL, "footer: wrong checksum" },
	{ last_forged_fixed, -EINVAL, "contradict" },
	{ cut, -EINVAL, "truncated" },
	{ empty, -EINVAL, "too small" },
	{ tiny, -EINVAL, "header is not in the file" },
	{ header_spoilt, -EINVAL, "header: wrong checksum" },
	{ no_locator, -EINVAL, "no locator of a parent" },
	{ poisoned, -EINVAL, "v_poison" },
};

START_TEST(a_damaged_file_is_read_right_or_refused_in_one_line)
{
	struct made m = { .block = 64 * KIB, .bytes = DISK, .id = 1 };
	char spec[300], log[4096];
	off_t size;
	int err;

	m.disk = calloc(1, DISK);
	make(&m, "d.vhd", 2);
	files[_i].spoil(&m);
	size = size_of(m.path);
	rig_log();
	err = try_open(m.path, DRIVER_RDONLY);
	ck_assert_int_eq(err, files[_i].want);
	if (err) {
		ck_assert_uint_eq(rig_logged(log, sizeof(log)), 1);
		ck_assert_msg(strstr(log, files[_i].line), "%s", log);
	} else if (files[_i].spoil != last_forged) {
		snprintf(spec, sizeof(spec), "vhd:%s", m.path);
		compare(spec, m.disk, DISK, 0, 5);
	}
	ck_assert_int_eq(size_of(m.path), size);
	free(m.disk);
	unlink(m.path);
}
END_TEST

static void make_fixed(struct made *m, bool old)
{
	struct vhd_format_footer footer = {
		.type = VHD_FORMAT_FIXED,
		.bytes = DISK,
		.id = { 5 },
	};
	uint8_t bytes[SECTOR];
	int fd;

	rig_file(m->path, sizeof(m->path), "f.vhd", DISK);
	m->disk = malloc(DISK);
	for (unsigned i = 0; i < DISK; i++)
		m->disk[i] = (uint8_t)(i / SECTOR + i % 251);
	vhd_format_build_footer(&footer, bytes);
	fd = open(m->path, O_RDWR);
	put(fd, m->disk, DISK, 0);
	put(fd, bytes, old ? 511 : SECTOR, DISK);
	close(fd);
}

START_TEST(a_fixed_disk_is_its_file)
{
	struct made m = { 0 };
	char spec[300];

	make_fixed(&m, _i);
	snprintf(spec, sizeof(spec), "vhd:%s", m.path);
	compare(spec, m.disk, DISK, 0, 6);
	/* a guest that writes a footer into its first sector gains nothing */
	if (_i == 0) {
		forge(&m, VHD_FORMAT_DIFFERENCING, 0);
		ck_assert_int_eq(try_open(m.path, DRIVER_RDONLY), -EINVAL);
	}
	free(m.disk);
	unlink(m.path);
}
END_TEST

START_TEST(what_the_file_lacks_is_an_error_and_no_garbage)
{
	struct made m = { .block = 64 * KIB, .bytes = 64 * KIB, .id = 1 };
	char spec[300], *buf = rig_buffer(64 * KIB);
	struct rig rig;
	uint64_t seed = 1;
	int err;

	/* a disk of one block, all of which was written */
	m.disk = calloc(1, m.bytes);
	do {
		memset(m.disk, 0, m.bytes);
		m.last = 0;
		make(&m, "d.vhd", seed++);
	} while (!m.last || !m.disk[0] || !m.disk[m.bytes - SECTOR]);
	ck_assert_int_eq(truncate(m.path, m.last + 32 * KIB), 0);
	snprintf(spec, sizeof(spec), "vhd:%s", m.path);
	rig_open(&rig, spec, DRIVER_RDONLY);
	err = rig_do(&rig, IO_READ, 0, SECTOR, buf);
	ck_assert_int_eq(err, 0);
	ck_assert_mem_eq(buf, m.disk, SECTOR);
	err = rig_do(&rig, IO_READ, m.bytes - SECTOR, SECTOR, buf);
	ck_assert_int_eq(err, -EIO);
	rig_close(&rig);
	free(m.disk);
	free(buf);
	unlink(m.path);
}
END_TEST

START_TEST(errors_of_the_store_reach_the_reader)
{
	struct made m = { .block = 64 * KIB, .bytes = DISK, .id = 1 };
	char spec[400], *buf = rig_buffer(DISK);
	struct rig rig;

	m.disk = calloc(1, DISK);
	make(&m, "d.vhd", 3);
	snprintf(spec, sizeof(spec),
		 "vhd:@fault:op=read,from=16k,to=1g,nth=3;aio:%s", m.path);
	rig_open(&rig, spec, DRIVER_RDONLY);
	ck_assert_int_eq(rig_do(&rig, IO_READ, 0, DISK, buf), -EIO);
	ck_assert_int_eq(rig_do(&rig, IO_READ, 0, DISK, buf), 0);
	ck_assert_mem_eq(buf, m.disk, DISK);
	rig_close(&rig);
	free(m.disk);
	free(buf);
	unlink(m.path);
}
END_TEST

START_TEST(is_not_opened_for_writing_and_not_written)
{
	struct made m = { .block = 64 * KIB, .bytes = DISK, .id = 1 };
	char spec[300], log[4096], *buf = rig_buffer(SECTOR);
	struct rig rig;

	m.disk = calloc(1, DISK);
	make(&m, "d.vhd", 3);
	rig_log();
	ck_assert_int_eq(try_open(m.path, 0), -EROFS);
	ck_assert_uint_eq(rig_logged(log, sizeof(log)), 1);
	ck_assert_ptr_nonnull(strstr(log, "read-only"));
	snprintf(spec, sizeof(spec), "vhd:%s", m.path);
	rig_open(&rig, spec, DRIVER_RDONLY);
	ck_assert_int_eq(rig_do(&rig, IO_WRITE, 0, SECTOR, buf), -EPERM);
	ck_assert_int_eq(rig_do(&rig, IO_FLUSH, 0, 0, NULL), 0);
	rig_close(&rig);
	free(m.disk);
	free(buf);
	unlink(m.path);
}
END_TEST

/* Not a test of check's, so without its assertions. */
static int dump(const char *spec, const char *to)
{
	enum { PIECE = 44 * KIB };
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600), err;
	struct rig rig = { 0 };
	struct rig_io r;
	char *buf;

	if (fd < 0 || posix_memalign((void **)&buf, 4096, PIECE))
		return EXIT_FAILURE;
	err = driver_open(spec, DRIVER_RDONLY, &rig.node);
	if (err || wait_init(&rig.wait, false) ||
	    port_open(rig.node, &rig.wait, 16, &rig.port))
		return EXIT_FAILURE;
	for (uint64_t at = 0, len; !err && at < rig.node->info.bytes;
	     at += len) {
		len = rig.node->info.bytes - at;
		if (len > PIECE)
			len = PIECE;
		rig_submit(&rig, &r, IO_READ, at, len, buf);
		while (!r.dones)
			rig_turn(&rig);
		err = r.err;
		if (!err && write(fd, buf, len) != (ssize_t)len)
			err = -errno;
	}
	rig_close(&rig);
	close(fd);
	free(buf);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run(void)
{
	Suite *suite = suite_create("vhd");
	TCase *tc = tcase_create("vhd");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, a_dynamic_disk_is_what_its_blocks_say, 0,
			    sizeof(shapes) / sizeof(*shapes));
	tcase_add_loop_test(tc, a_chain_is_its_layers_over_each_other, 0,
			    sizeof(chains) / sizeof(*chains));
	tcase_add_test(tc, a_chain_has_a_limit);
	tcase_add_test(tc, a_cycle_is_refused);
	tcase_add_test(tc, a_raw_parent_may_be_shorter);
	tcase_add_test(tc, a_parent_is_found_beside_what_a_link_leads_to);
	tcase_add_loop_test(tc,
			    a_damaged_file_is_read_right_or_refused_in_one_line,
			    0, sizeof(files) / sizeof(*files));
	tcase_add_loop_test(tc, a_fixed_disk_is_its_file, 0, 2);
	tcase_add_test(tc, what_the_file_lacks_is_an_error_and_no_garbage);
	tcase_add_test(tc, errors_of_the_store_reach_the_reader);
	tcase_add_test(tc, is_not_opened_for_writing_and_not_written);
	suite_add_tcase(suite, tc);
	return rig_run(suite);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "dump"))
		return dump(argv[2], argv[3]);
	return run();
}
