/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page the tapdisks of a host share, among processes that live, die, lie
 * and race, and in files that are not what they should be.
 */
#include "poll/clock.h"
#include "poll/host_page.h"
#include "tests/dice.h"
#include "tests/scratch.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 69632 /* 64 records of 64 bytes, then 1024 slots */
#define SLOTS 4096
#define RATE 5000000

static char path[200];

static void set_up(void)
{
	scratch_path(path, sizeof(path), "page");
}

static struct host_page *join(void)
{
	struct host_page *page = NULL;

	ck_assert_int_eq(host_page_open(path, &page), 0);
	return page;
}

static bool exists(void)
{
	return !access(path, F_OK);
}

static const struct host_page_slot *busy(void)
{
	static struct host_page_slot slot;

	slot = (struct host_page_slot){ .written_ns = clock_ns(),
					.spin_ns = 123456789,
					.rate = RATE,
					.active = true };
	return &slot;
}

static size_t peers(struct host_page *page)
{
	const struct cpu_price_peer *unused;

	return host_page_peers(page, clock_ns(), &unused);
}

/* Another process: it runs @fn, says so, and stays until told to go. */
struct other {
	pid_t pid;
	int go, said;
};

static struct other start(void (*fn)(struct host_page *page))
{
	struct other other;
	int to[2], from[2];
	char c;

	ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
	other.pid = fork();
	ck_assert_int_ge(other.pid, 0);
	if (!other.pid) {
		struct host_page *page = NULL;

		/* its end too, should the test fail */
		close(to[1]);
		if (host_page_open(path, &page))
			_exit(1);
		fn(page);
		if (write(from[1], "x", 1) != 1 || read(to[0], &c, 1) != 1)
			_exit(1);
		host_page_close(page);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	other.go = to[1];
	other.said = from[0];
	ck_assert_int_eq(read(other.said, &c, 1), 1);
	return other;
}

static void finish(struct other *other)
{
	int status;

	ck_assert_int_eq(write(other->go, "x", 1), 1);
	ck_assert_int_eq(waitpid(other->pid, &status, 0), other->pid);
	ck_assert_int_eq(status, 0);
	close(other->go);
	close(other->said);
}

static void die(struct other *other)
{
	kill(other->pid, SIGKILL);
	ck_assert_int_eq(waitpid(other->pid, NULL, 0), other->pid);
	close(other->go);
	close(other->said);
}

static void be_busy(struct host_page *page)
{
	host_page_publish(page, busy());
}

static void be_idle(struct host_page *page)
{
	struct host_page_slot slot = *busy();

	slot.active = false;
	host_page_publish(page, &slot);
}

static void be_stale(struct host_page *page)
{
	struct host_page_slot slot = *busy();

	slot.written_ns -= HOST_PAGE_FRESH_NS + CLOCK_SECOND;
	host_page_publish(page, &slot);
}

static void be_early(struct host_page *page)
{
	struct host_page_slot slot = *busy();

	slot.written_ns = UINT64_MAX - 1;
	host_page_publish(page, &slot);
}

static void be_silent(struct host_page *page)
{
	(void)page;
}

/* Write at @at of the page, past all manners. */
static void scribble(const void *data, size_t len, off_t at)
{
	int fd = open(path, O_RDWR);

	if (fd < 0 || pwrite(fd, data, len, at) != (ssize_t)len)
		_exit(1);
	close(fd);
}

static void scribble_elsewhere(const void *data, size_t len, off_t at)
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		scribble(data, len, at);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

START_TEST(processes_see_each_other)
{
	const struct cpu_price_peer *list;
	struct other others[3];
	struct host_page *page;

	set_up();
	page = join();
	ck_assert_int_eq(host_page_publish(page, busy()), 0);
	ck_assert_uint_eq(peers(page), 0); /* we are no peer of ours */
	for (unsigned i = 0; i < 3; i++)
		others[i] = start(be_busy);
	ck_assert_uint_eq(host_page_peers(page, clock_ns(), &list), 3);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(list[i].rate, RATE);
		ck_assert(!list[i].hungry);
	}
	for (unsigned i = 0; i < 3; i++) {
		finish(&others[i]);
		ck_assert_uint_eq(peers(page), 2 - i);
	}
	host_page_close(page);
	ck_assert(!exists());
}
END_TEST

static const struct {
	const char *why;
	void (*fn)(struct host_page *page);
} absent[] = {
	{ "idle", be_idle },
	{ "stale", be_stale },
	{ "from the future", be_early },
	{ "never said a word", be_silent },
};

START_TEST(only_active_ones_count)
{
	struct host_page *page;
	struct other other;

	set_up();
	page = join();
	other = start(absent[_i].fn);
	ck_assert_msg(peers(page) == 0, "%s", absent[_i].why);
	finish(&other);
	host_page_close(page);
}
END_TEST

START_TEST(the_dead_do_not_count_and_leave_their_slot)
{
	struct host_page *page;
	struct other other;

	set_up();
	page = join();
	for (unsigned i = 0; i < 1500; i += 100) {
		other = start(be_busy);
		ck_assert_uint_eq(peers(page), 1);
		die(&other);
		/* the lock is looked at again after 16 calls at the latest */
		for (unsigned k = 0; k < 16; k++)
			peers(page);
		ck_assert_uint_eq(peers(page), 0);
	}
	host_page_close(page);
	ck_assert(!exists());
}
END_TEST

START_TEST(a_file_that_the_dead_left_is_used_and_removed)
{
	struct host_page *page;
	struct other other;

	set_up();
	other = start(be_busy);
	die(&other);
	ck_assert(exists());
	page = join();
	ck_assert_uint_eq(peers(page), 0);
	host_page_close(page);
	ck_assert(!exists());
}
END_TEST

START_TEST(who_is_not_the_last_leaves_the_file)
{
	struct host_page *page;
	struct other other;

	set_up();
	page = join();
	other = start(be_busy);
	host_page_close(page);
	ck_assert(exists());
	finish(&other);
	ck_assert(!exists());
}
END_TEST

/* --- files that are not what they should be */

static void make_text(void)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	ck_assert_int_eq(write(fd, "something of somebody", 21), 21);
	close(fd);
}

static void make_large_text(void)
{
	make_text();
	ck_assert_int_eq(truncate(path, SIZE), 0);
}

static void make_writable(void)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	ck_assert_int_eq(fchmod(fd, 0666), 0);
	close(fd);
}

static void make_foreign(void)
{
	make_text();
	/* only root can give a file away: the next best for others */
	if (chown(path, 12345, 12345))
		ck_assert_int_eq(chmod(path, 0622), 0);
}

static void make_fifo(void)
{
	ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static void make_link(void)
{
	ck_assert_int_eq(symlink("/dev/null", path), 0);
}

static void make_directory(void)
{
	ck_assert_int_eq(mkdir(path, 0700), 0);
}

static const struct {
	const char *why;
	void (*make)(void);
	int want;
} strange[] = {
	{ "a text", make_text, -EINVAL },
	{ "a text of our size", make_large_text, -EINVAL },
	{ "others may write it", make_writable, -EPERM },
	{ "another user's", make_foreign, -EPERM },
	{ "a FIFO", make_fifo, -EINVAL },
	{ "a symbolic link", make_link, -ELOOP },
	{ "a directory", make_directory, -EISDIR },
};

START_TEST(strange_files_are_left_alone)
{
	struct host_page *page = NULL;
	struct stat before, after;
	unsigned fds;
	int err;

	set_up();
	strange[_i].make();
	ck_assert_int_eq(lstat(path, &before), 0);
	fds = scratch_descriptors();
	err = host_page_open(path, &page);
	ck_assert_msg(err == strange[_i].want, "%s: %s", strange[_i].why,
		      strerror(-err));
	ck_assert_ptr_null(page);
	ck_assert_uint_eq(scratch_descriptors(), fds);
	ck_assert_int_eq(lstat(path, &after), 0);
	ck_assert_int_eq(before.st_size, after.st_size);
	ck_assert_int_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}
END_TEST

START_TEST(a_missing_directory_is_an_error)
{
	struct host_page *page;

	ck_assert_int_eq(host_page_open("/nonexistent/page", &page), -ENOENT);
}
END_TEST

/* What a process leaves that dies while it makes the page. */
START_TEST(half_made_pages_are_made_anew)
{
	static const off_t sizes[] = { 0, 64, 4096, SIZE - 1 };
	struct host_page *page;
	struct stat st;
	int fd;

	set_up();
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(ftruncate(fd, sizes[_i]), 0);
	close(fd);
	page = join();
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_size, SIZE);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	host_page_close(page);
	ck_assert(!exists());
}
END_TEST

START_TEST(removed_or_cut_is_noticed_and_kills_nobody)
{
	static const off_t sizes[] = { -1, 0, 100, SLOTS + 10, SIZE - 64 };
	struct host_page *page, *again;
	struct calibration figures;
	uint64_t when;

	set_up();
	page = join();
	ck_assert_int_eq(host_page_publish(page, busy()), 0);
	if (sizes[_i] < 0)
		ck_assert_int_eq(unlink(path), 0);
	else
		ck_assert_int_eq(truncate(path, sizes[_i]), 0);
	ck_assert_int_eq(host_page_publish(page, busy()), -ESTALE);
	ck_assert_uint_eq(peers(page), 0);
	ck_assert_int_eq(host_page_calibration(page, 0, clock_ns(), &figures,
					       &when),
			 -ENOENT);
	/* whose name it has by now stays */
	if (sizes[_i] < 0) {
		again = join();
		host_page_close(page);
		ck_assert(exists());
		host_page_close(again);
	} else {
		host_page_close(page);
	}
	ck_assert(!exists());
}
END_TEST

/* --- lies */

START_TEST(slots_without_a_process_count_nothing)
{
	static unsigned char slots[HOST_PAGE_SLOTS - 1][64];
	struct host_page *page;
	struct other other;
	int fd;

	set_up();
	page = join();
	other = start(be_busy);
	/* not closed: the locks of a process go with any descriptor it closes
	 */
	fd = open(path, O_RDONLY);
	ck_assert_int_eq(pread(fd, slots[0], 64, SLOTS + 64), 64);
	for (unsigned i = 1; i < HOST_PAGE_SLOTS - 1; i++)
		memcpy(slots[i], slots[0], 64);
	scribble_elsewhere(slots, sizeof(slots), SLOTS + 64);
	ck_assert_uint_eq(peers(page), 1);
	finish(&other);
	host_page_close(page);
}
END_TEST

static void hold_many(struct host_page *page)
{
	unsigned char slot[64];
	struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(path, O_RDWR);

	host_page_publish(page, busy());
	if (pread(fd, slot, sizeof(slot), SLOTS + 64) != 64)
		_exit(1);
	for (unsigned i = 2; i < 200; i++) {
		range.l_start = SLOTS + i * 64;
		range.l_len = 64;
		if (fcntl(fd, F_SETLK, &range) ||
		    pwrite(fd, slot, sizeof(slot), range.l_start) != 64)
			_exit(1);
	}
	/* fd stays open: the locks are on it */
}

START_TEST(a_process_with_many_slots_counts_once)
{
	struct host_page *page;
	struct other other;

	set_up();
	page = join();
	other = start(hold_many);
	for (unsigned i = 0; i < 50; i++)
		ck_assert_uint_eq(peers(page), 1);
	finish(&other);
	host_page_close(page);
}
END_TEST

START_TEST(a_spoilt_slot_costs_one_part)
{
	const struct cpu_price_peer *list;
	struct host_page *page;
	struct other other;
	unsigned char slot[64];

	set_up();
	page = join();
	other = start(be_busy);
	memset(slot, 0xa5, sizeof(slot));
	scribble_elsewhere(slot, sizeof(slot), SLOTS + 64);
	ck_assert_uint_eq(host_page_peers(page, clock_ns(), &list), 1);
	ck_assert(list[0].hungry);
	finish(&other);
	host_page_close(page);
}
END_TEST

/* The whole file is noise, over and over: never more peers than processes. */
START_TEST(noise_costs_no_more_than_the_processes_there_are)
{
	static unsigned char noise[SIZE];
	struct dice dice = { (uint64_t)_i };
	struct other others[2];
	struct host_page *page;
	struct calibration figures;
	uint64_t when;

	set_up();
	page = join();
	others[0] = start(be_busy);
	others[1] = start(be_busy);
	for (unsigned round = 0; round < 20; round++) {
		for (size_t i = 0; i < SIZE; i++)
			noise[i] = (unsigned char)dice_any(&dice);
		scribble_elsewhere(noise, sizeof(noise), 0);
		ck_assert_uint_le(peers(page), 2);
		ck_assert_int_eq(host_page_calibration(page, 0, UINT64_MAX,
						       &figures, &when),
				 -ENOENT);
		/* we repair our own */
		ck_assert_int_eq(host_page_publish(page, busy()), 0);
	}
	finish(&others[0]);
	finish(&others[1]);
	host_page_close(page);
}
END_TEST

static void hold_all(struct host_page *page)
{
	struct flock range = { .l_type = F_WRLCK,
			       .l_whence = SEEK_SET,
			       .l_start = SLOTS,
			       .l_len = SIZE - SLOTS };
	int fd = open(path, O_RDWR);

	(void)page;
	if (fcntl(fd, F_SETLK, &range))
		_exit(1);
}

START_TEST(a_full_page_is_an_error)
{
	struct host_page *page = NULL;
	struct other other;

	set_up();
	other = start(hold_all);
	ck_assert_int_eq(host_page_open(path, &page), -ENOSPC);
	ck_assert(exists());
	finish(&other);
	ck_assert(!exists());
}
END_TEST

static void hold_door(struct host_page *page)
{
	struct flock range = { .l_type = F_WRLCK,
			       .l_whence = SEEK_SET,
			       .l_start = 0,
			       .l_len = 1 };
	int fd = open(path, O_RDWR);

	(void)page;
	if (fcntl(fd, F_SETLK, &range))
		_exit(1);
}

START_TEST(who_sits_in_the_door_does_not_stop_us)
{
	struct host_page *page = NULL;
	struct other other;

	set_up();
	other = start(hold_door);
	ck_assert_int_eq(host_page_open(path, &page), -EBUSY);
	finish(&other);
}
END_TEST

/* --- races */

START_TEST(a_slot_being_written_is_never_half_read)
{
	const struct cpu_price_peer *list;
	struct host_page *page;
	pid_t pid;
	int status;

	set_up();
	page = join();
	pid = fork();
	if (!pid) {
		struct host_page *own = NULL;
		struct host_page_slot slot;

		if (host_page_open(path, &own))
			_exit(1);
		for (unsigned i = 0; i < 30000; i++) {
			slot = *busy();
			slot.rate = i % 2 ? 0x11111111 : 0x22222222;
			if (host_page_publish(own, &slot))
				_exit(1);
		}
		_exit(0);
	}
	do {
		size_t n = host_page_peers(page, clock_ns(), &list);

		ck_assert_uint_le(n, 1);
		if (n && !list[0].hungry)
			ck_assert(list[0].rate == 0x11111111 ||
				  list[0].rate == 0x22222222);
	} while (!waitpid(pid, &status, WNOHANG));
	ck_assert_int_eq(status, 0);
	host_page_close(page);
}
END_TEST

/* Come and go all at once: everybody gets in, and the last takes the file. */
START_TEST(coming_and_going_at_once)
{
	pid_t pids[8];
	int status;

	set_up();
	for (unsigned i = 0; i < 8; i++) {
		pids[i] = fork();
		if (pids[i])
			continue;
		for (unsigned k = 0; k < 200; k++) {
			struct host_page *page = NULL;

			if (host_page_open(path, &page))
				_exit(2);
			if (host_page_publish(page, busy()))
				_exit(3);
			if (peers(page) > 7)
				_exit(4);
			host_page_close(page);
		}
		_exit(0);
	}
	for (unsigned i = 0; i < 8; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	}
	ck_assert(!exists());
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof(*(table))))

int main(void)
{
	Suite *suite = suite_create("host_page");
	TCase *tcase = tcase_create("host_page");
	SRunner *runner;
	int failed;

	scratch_open();
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, processes_see_each_other);
	tcase_add_loop_test(tcase, only_active_ones_count, 0, COUNT(absent));
	tcase_add_test(tcase, the_dead_do_not_count_and_leave_their_slot);
	tcase_add_test(tcase, a_file_that_the_dead_left_is_used_and_removed);
	tcase_add_test(tcase, who_is_not_the_last_leaves_the_file);
	tcase_add_loop_test(tcase, strange_files_are_left_alone, 0,
			    COUNT(strange));
	tcase_add_test(tcase, a_missing_directory_is_an_error);
	tcase_add_loop_test(tcase, half_made_pages_are_made_anew, 0, 4);
	tcase_add_loop_test(tcase, removed_or_cut_is_noticed_and_kills_nobody,
			    0, 5);
	tcase_add_test(tcase, slots_without_a_process_count_nothing);
	tcase_add_test(tcase, a_process_with_many_slots_counts_once);
	tcase_add_test(tcase, a_spoilt_slot_costs_one_part);
	tcase_add_loop_test(
		tcase, noise_costs_no_more_than_the_processes_there_are, 0, 3);
	tcase_add_test(tcase, a_full_page_is_an_error);
	tcase_add_test(tcase, who_sits_in_the_door_does_not_stop_us);
	tcase_add_test(tcase, a_slot_being_written_is_never_half_read);
	tcase_add_test(tcase, coming_and_going_at_once);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? 1 : 0;
}
