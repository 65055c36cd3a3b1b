/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What monitoring reads of a ring: the counts behind it, and the files, against
 * those that upstream wrote after the same requests (tests/data/stats: S01,
 * S02, S05, S06 of the field's failures).  Times differ, all else does not.
 */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "poll/clock.h"
#include "poll/relax.h"
#include "ring/meter.h"
#include "tests/scratch.h"
#include "tests/stand.h"

enum {
	SAMPLES = 1000000,
	SECTORS_4K = 8,
	VBD_SIZE = 96,
	STATISTICS_SIZE = 112,
	DISK_SECT = 131072, /* 64 MiB, as upstream's */
	SETTLED_MS = 900, /* files are written five times a second */
};

/* ---- the counts ---- */

static struct meter meter;
static bool stop;

static void *count(void *arg)
{
	struct meter_side *r = &meter.now.read;

	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		r->submitted++;
		r->completed = r->submitted;
		r->sect = r->submitted * SECTORS_4K;
		r->total_ns = r->submitted * 1000;
		meter.now.rsp_prod = r->submitted;
		meter_show(&meter);
		/* a turn does something, too */
		for (unsigned i = 0; i < 10; i++)
			relax();
	}
	return NULL;
}

START_TEST(a_million_readings_are_each_of_one_moment)
{
	struct meter_counts c;
	uint64_t last = 0;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, count, NULL), 0);
	for (unsigned i = 0; i < SAMPLES; i++) {
		meter_read(&meter, &c);
		/* without check's bookkeeping, which takes longer */
		if (c.read.completed != c.read.submitted ||
		    c.read.sect != c.read.submitted * SECTORS_4K ||
		    c.read.total_ns != c.read.submitted * 1000 ||
		    c.rsp_prod != c.read.submitted || c.read.submitted < last)
			ck_abort_msg("reading %u is torn", i);
		last = c.read.submitted;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	ck_assert_uint_gt(last, 0);
}
END_TEST

START_TEST(main_is_told_once_until_it_asks_again)
{
	ck_assert(!meter_must_tell(&meter));
	meter_show(&meter);
	ck_assert(meter_must_tell(&meter));
	meter_show(&meter);
	ck_assert(!meter_must_tell(&meter));
	meter_tell_me(&meter);
	ck_assert(meter_must_tell(&meter));
	meter_tell_me(&meter);
	ck_assert_msg(!meter_must_tell(&meter), "there was nothing new");
}
END_TEST

START_TEST(what_is_timed_counts_for_what_is_not)
{
	struct meter m = { .news = false };
	uint64_t weights = 0;
	unsigned timed = 0;

	for (unsigned i = 0; i < 100 * METER_EVERY; i++) {
		uint32_t weight = meter_weight(&m, 0);

		weights += weight;
		timed += weight > 0;
	}
	ck_assert_uint_eq(timed, 100);
	ck_assert_uint_eq(weights, 100 * METER_EVERY);
	for (uint64_t sleeps = 1; sleeps < 100; sleeps++)
		ck_assert_uint_eq(meter_weight(&m, sleeps), 1);
	meter_took(&m, METER_TOTAL, 1000, METER_EVERY);
	ck_assert_uint_eq(m.latency[METER_TOTAL].bins[gaps_bin_of(1000)].n,
			  METER_EVERY);
	ck_assert_uint_eq(m.latency[METER_TOTAL].bins[gaps_bin_of(1000)].ns,
			  1000 * METER_EVERY);
}
END_TEST

/* ---- the files ---- */

static char shm[100], vbd_file[160], ring_dir[160];

static void in_ring_dir(char out[200], const char *name)
{
	snprintf(out, 200, "%s/%s", ring_dir, name);
}

static void open_files(struct stand *stand)
{
	scratch_path(shm, sizeof(shm), "shm");
	ck_assert(mkdir(shm, 0700) == 0);
	setenv("TAPDISK_SHM_DIR", shm, 1);
	stand_open(stand, "ram:64m", 0, ABI_X86_64, 0);
	snprintf(vbd_file, sizeof(vbd_file), "%s/td3-%d/vbd-%u-%u", shm,
		 (int)getpid(), STAND_DOMID, STAND_DEVID);
	snprintf(ring_dir, sizeof(ring_dir), "%s/vbd3-%u-%u", shm, STAND_DOMID,
		 STAND_DEVID);
}

static size_t slurp(const char *path, void *buf, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n;

	ck_assert_msg(fd >= 0, "%s", path);
	n = read(fd, buf, size);
	close(fd);
	ck_assert_int_ge(n, 0);
	return (size_t)n;
}

static void capture(const char *name, void *buf, size_t size)
{
	char path[128];

	snprintf(path, sizeof(path), "tests/data/stats/%s.bin", name);
	ck_assert_uint_eq(slurp(path, buf, size), size);
}

/* Words that are times, by their place. */
static const unsigned vbd_times[] = { 5, 9, 0 };
static const unsigned statistics_times[] = { 6, 7, 11, 12, 0 };

static void check_file(const char *path, const char *name, size_t size,
		       const unsigned *times, uint64_t empty_barriers)
{
	uint64_t got[512] = { 0 }, want[16];

	ck_assert_uint_eq(slurp(path, got, sizeof(got)), sizeof(got));
	capture(name, want, size);
	for (; *times; times++) {
		ck_assert_msg(!want[*times] == !got[*times], "%s: word %u",
			      path, *times);
		got[*times] = want[*times];
	}
	if (size == VBD_SIZE)
		want[6] -= empty_barriers;
	else
		want[8] -= empty_barriers;
	for (unsigned i = 0; i < size / 8; i++)
		ck_assert_msg(got[i] == want[i], "%s: word %u: %llu, not %llu",
			      path, i, (unsigned long long)got[i],
			      (unsigned long long)want[i]);
}

static void check_files(const char *vbd, const char *statistics,
			uint64_t empty_barriers)
{
	char path[200];

	check_file(vbd_file, vbd, VBD_SIZE, vbd_times, empty_barriers);
	in_ring_dir(path, "statistics");
	if (statistics)
		check_file(path, statistics, STATISTICS_SIZE, statistics_times,
			   empty_barriers);
}

static uint32_t crc32_of(const uint8_t *p, size_t len)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len; i++)
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^
			      (((p[i] >> bit ^ crc) & 1) ? 0xedb88320 : 0);
	return ~crc;
}

static void check_io_ring(void)
{
	uint8_t got[200], want[200];
	char path[200];
	uint64_t crc;
	size_t n;

	in_ring_dir(path, "io_ring");
	n = slurp(path, got, sizeof(got));
	ck_assert_uint_gt(n, 8);
	memcpy(&crc, got, 8);
	ck_assert_uint_eq(crc, crc32_of(got + 8, n - 8));
	capture("vbd3-io_ring", want, n);
	ck_assert_mem_eq(got, want, n);
}

START_TEST(known_requests_give_upstreams_files)
{
	uint8_t data[4096] = { 0 };
	struct stand stand;
	struct stat st;

	open_files(&stand);
	ck_assert_int_eq(stand_connect(&stand), 0);
	check_files("before-td3-vbd", NULL, 0);
	ck_assert_int_eq(stat(vbd_file, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	for (unsigned i = 0; i < 1000; i++)
		ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, i * SECTORS_4K,
					  4096, data),
				 0);
	for (unsigned i = 0; i < 500; i++)
		ck_assert_int_eq(stand_io(&stand, BLKIF_OP_WRITE,
					  i * SECTORS_4K, 4096, data),
				 0);
	stand_run(&stand, SETTLED_MS);
	check_files("td3-vbd", "vbd3-statistics", 0);
	check_io_ring();

	stand_io(&stand, BLKIF_OP_READ, DISK_SECT, 4096, data);
	stand_io(&stand, BLKIF_OP_RESERVED_1, 0, 0, NULL);
	stand_io(&stand, BLKIF_OP_WRITE, DISK_SECT, 4096, data);
	stand_run(&stand, SETTLED_MS);
	/* an empty barrier is no write, as upstream counts it */
	check_files("errors-td3-vbd", "errors-vbd3-statistics", 1);
	stand_close(&stand);
}
END_TEST

/* A stale directory is replaced, and whoever watches sees it come anew. */
START_TEST(stale_files_are_replaced_and_none_is_left)
{
	struct stand stand;
	struct stat before, after;
	char path[200];

	open_files(&stand);
	ck_assert_int_eq(mkdir(ring_dir, 0700), 0);
	in_ring_dir(path, "statistics");
	close(open(path, O_CREAT | O_WRONLY, 0600));
	in_ring_dir(path, "junk");
	close(open(path, O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(stat(ring_dir, &before), 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(stand_connect(&stand), 0);
		in_ring_dir(path, "junk");
		ck_assert_int_ne(access(path, F_OK), 0);
		in_ring_dir(path, "io_ring");
		ck_assert_int_eq(access(path, F_OK), 0);
		ck_assert_int_eq(stat(ring_dir, &after), 0);
		ck_assert_int_eq(access(vbd_file, F_OK), 0);
		ck_assert_int_eq(stand_disconnect(&stand), 0);
		ck_assert_int_ne(access(vbd_file, F_OK), 0);
		ck_assert_int_ne(access(ring_dir, F_OK), 0);
	}
	stand_close(&stand);
	ck_assert_msg(rmdir(shm) == 0, "something is left in %s", shm);
}
END_TEST

START_TEST(a_link_in_the_way_is_not_followed)
{
	struct stand stand;
	struct stat st;
	char victim[200], dir[160];

	open_files(&stand);
	scratch_path(dir, sizeof(dir), "victim");
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	snprintf(victim, sizeof(victim), "%s/statistics", dir);
	close(open(victim, O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(symlink(dir, ring_dir), 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	ck_assert_int_eq(lstat(ring_dir, &st), 0);
	ck_assert(S_ISDIR(st.st_mode));
	ck_assert_int_eq(stat(victim, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	stand_close(&stand);
}
END_TEST

/* One that cannot be replaced is somebody else's, and so are its links. */
START_TEST(a_directory_that_is_not_ours_is_not_written_to)
{
	struct stand stand;
	struct stat st;
	uint8_t data[4096];
	char path[200], victim[160];

	open_files(&stand);
	ck_assert_int_eq(mkdir(ring_dir, 0700), 0);
	in_ring_dir(path, "in_the_way");
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(stand_connect(&stand), 0);
	scratch_path(victim, sizeof(victim), "victim");
	in_ring_dir(path, "io_ring~");
	ck_assert_int_eq(symlink(victim, path), 0);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 4096, data), 0);
	stand_run(&stand, SETTLED_MS);
	ck_assert_int_ne(stat(victim, &st), 0);
	in_ring_dir(path, "io_ring");
	ck_assert_int_ne(lstat(path, &st), 0);
	in_ring_dir(path, "io_ring~");
	ck_assert_int_eq(lstat(path, &st), 0);
	stand_close(&stand);
	in_ring_dir(path, "in_the_way");
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(rmdir(ring_dir), 0);
}
END_TEST

/* Serving goes on where there is nothing to write to. */
START_TEST(without_a_directory_the_disk_works)
{
	uint8_t data[4096];
	struct stand stand;

	open_files(&stand);
	setenv("TAPDISK_SHM_DIR", "/nonexistent", 1);
	ck_assert_int_eq(stand_connect(&stand), 0);
	ck_assert_int_eq(stand_io(&stand, BLKIF_OP_READ, 0, 4096, data), 0);
	stand_run(&stand, SETTLED_MS);
	stand_close(&stand);
}
END_TEST

/* ---- a reader in a loop, while the disk works ---- */

struct sample {
	uint64_t words[VBD_SIZE / 8];
	uint64_t number; /* behind the structure: odd while it is written */
};

struct watcher {
	const struct sample *file;
	uint64_t samples, changes;
	bool torn, back;
};

static bool take_sample(const struct sample *from, struct sample *out)
{
	uint64_t before = __atomic_load_n(&from->number, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < VBD_SIZE / 8; i++)
		out->words[i] =
			__atomic_load_n(&from->words[i], __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	out->number = __atomic_load_n(&from->number, __ATOMIC_RELAXED);
	return before == out->number && !(before & 1);
}

static void *watch(void *arg)
{
	struct watcher *w = arg;
	struct sample s, last = { .number = 0 };

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED) ||
	       w->samples < SAMPLES) {
		if (!take_sample(w->file, &s))
			continue;
		/* one request at a time, all of 4 KiB, all answered */
		w->torn |= s.words[2] - s.words[3] > 1 ||
			   s.words[4] != s.words[2] * SECTORS_4K ||
			   s.words[6] - s.words[7] > 1 ||
			   s.words[8] != s.words[6] * SECTORS_4K ||
			   (s.words[3] && !s.words[5]);
		for (unsigned i = 0; i < VBD_SIZE / 8; i++)
			w->back |= s.words[i] < last.words[i];
		w->changes += s.number != last.number;
		w->samples++;
		last = s;
	}
	return NULL;
}

static void *load(void *arg)
{
	struct stand *stand = arg;
	uint64_t until = clock_ns() + 3 * CLOCK_SECOND;
	uint8_t data[4096] = { 0 };
	uintptr_t n = 0;

	do {
		stand_io(stand, BLKIF_OP_READ, 8, 4096, data);
		stand_io(stand, BLKIF_OP_WRITE, 8, 4096, data);
		n++;
	} while (clock_ns() < until);
	return (void *)n;
}

START_TEST(a_million_samples_under_load_are_whole_and_the_last_is_exact)
{
	struct watcher w = { .samples = 0 };
	pthread_t reader, loader;
	struct stand stand;
	struct sample s;
	void *n;
	int fd;

	open_files(&stand);
	ck_assert_int_eq(stand_connect(&stand), 0);
	fd = open(vbd_file, O_RDONLY);
	w.file = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert(w.file != MAP_FAILED);
	ck_assert_int_eq(pthread_create(&reader, NULL, watch, &w), 0);
	ck_assert_int_eq(pthread_create(&loader, NULL, load, &stand), 0);
	stand_run(&stand, 4000);
	pthread_join(loader, &n);
	stand_run(&stand, SETTLED_MS);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(reader, NULL);
	ck_assert(take_sample(w.file, &s));
	ck_assert_msg(!w.torn, "a sample of two moments");
	ck_assert_msg(!w.back, "a count went back");
	ck_assert_uint_ge(w.samples, SAMPLES);
	ck_assert_uint_ge(w.changes, 3);
	ck_assert_uint_eq(s.words[2], (uintptr_t)n);
	ck_assert_uint_eq(s.words[3], (uintptr_t)n);
	ck_assert_uint_eq(s.words[4], (uintptr_t)n * SECTORS_4K);
	ck_assert_uint_eq(s.words[7], (uintptr_t)n);
	ck_assert_uint_eq(s.words[8], (uintptr_t)n * SECTORS_4K);
	munmap((void *)(uintptr_t)w.file, 4096);
	close(fd);
	stand_close(&stand);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("metrics");
	TCase *tcase = tcase_create("metrics");
	SRunner *runner;
	int failed;

	scratch_open();
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, a_million_readings_are_each_of_one_moment);
	tcase_add_test(tcase, main_is_told_once_until_it_asks_again);
	tcase_add_test(tcase, what_is_timed_counts_for_what_is_not);
	tcase_add_test(tcase, known_requests_give_upstreams_files);
	tcase_add_test(tcase, stale_files_are_replaced_and_none_is_left);
	tcase_add_test(tcase, a_link_in_the_way_is_not_followed);
	tcase_add_test(tcase, a_directory_that_is_not_ours_is_not_written_to);
	tcase_add_test(tcase, without_a_directory_the_disk_works);
	tcase_add_test(
		tcase,
		a_million_samples_under_load_are_whole_and_the_last_is_exact);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed != 0;
}
