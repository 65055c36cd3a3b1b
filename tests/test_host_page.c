/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page the tapdisks of a host share, among processes that live and die, and
 * in files that are not what they should be.
 */
#include <errno.h>
#include <sys/stat.h>
#include "poll/clock.h"
#include "tests/neighbour.h"
#include "tests/rig.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof(*(table))))

static char path[200];

static void set_up(void)
{
	scratch_path(path, sizeof(path), "page");
}

static void be_idle(struct host_page *page)
{
	struct host_page_slot slot = *neighbour_slot();

	slot.active = false;
	host_page_publish(page, &slot);
}

static void be_stale(struct host_page *page)
{
	struct host_page_slot slot = *neighbour_slot();

	slot.written_ns -= HOST_PAGE_FRESH_NS + CLOCK_SECOND;
	host_page_publish(page, &slot);
}

static void be_early(struct host_page *page)
{
	struct host_page_slot slot = *neighbour_slot();

	slot.written_ns = UINT64_MAX - 1;
	host_page_publish(page, &slot);
}

static void be_silent(struct host_page *page)
{
	(void)page;
}

START_TEST(processes_see_each_other)
{
	const struct cpu_price_peer *list;
	struct neighbour others[3];
	struct host_page *page;

	set_up();
	page = neighbour_page(path);
	ck_assert_int_eq(host_page_publish(page, neighbour_slot()), 0);
	/* we are no peer of ours */
	ck_assert_uint_eq(neighbour_count(page), 0);
	for (unsigned i = 0; i < 3; i++)
		others[i] = neighbour_start(path, neighbour_is_busy);
	ck_assert_uint_eq(host_page_peers(page, clock_ns(), &list), 3);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(list[i].rate, NEIGHBOUR_RATE);
		ck_assert(!list[i].hungry);
	}
	for (unsigned i = 0; i < 3; i++) {
		neighbour_finish(&others[i]);
		ck_assert_uint_eq(neighbour_count(page), 2 - i);
	}
	host_page_close(page);
	ck_assert(!neighbour_page_exists(path));
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
	struct neighbour other;

	set_up();
	page = neighbour_page(path);
	other = neighbour_start(path, absent[_i].fn);
	ck_assert_msg(neighbour_count(page) == 0, "%s", absent[_i].why);
	neighbour_finish(&other);
	host_page_close(page);
}
END_TEST

START_TEST(the_dead_do_not_count_and_leave_their_slot)
{
	struct host_page *page;
	struct neighbour other;

	set_up();
	page = neighbour_page(path);
	for (unsigned i = 0; i < 1500; i += 100) {
		other = neighbour_start(path, neighbour_is_busy);
		ck_assert_uint_eq(neighbour_count(page), 1);
		neighbour_die(&other);
		/* the lock is looked at again after 16 calls at the latest */
		for (unsigned k = 0; k < 16; k++)
			neighbour_count(page);
		ck_assert_uint_eq(neighbour_count(page), 0);
	}
	host_page_close(page);
	ck_assert(!neighbour_page_exists(path));
}
END_TEST

START_TEST(a_file_that_the_dead_left_is_used_and_removed)
{
	struct host_page *page;
	struct neighbour other;

	set_up();
	other = neighbour_start(path, neighbour_is_busy);
	neighbour_die(&other);
	ck_assert(neighbour_page_exists(path));
	page = neighbour_page(path);
	ck_assert_uint_eq(neighbour_count(page), 0);
	host_page_close(page);
	ck_assert(!neighbour_page_exists(path));
}
END_TEST

START_TEST(who_is_not_the_last_leaves_the_file)
{
	struct host_page *page;
	struct neighbour other;

	set_up();
	page = neighbour_page(path);
	other = neighbour_start(path, neighbour_is_busy);
	host_page_close(page);
	ck_assert(neighbour_page_exists(path));
	neighbour_finish(&other);
	ck_assert(!neighbour_page_exists(path));
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
	ck_assert_int_eq(truncate(path, NEIGHBOUR_PAGE_BYTES), 0);
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
	static const off_t sizes[] = { 0, 64, 4096, NEIGHBOUR_PAGE_BYTES - 1 };
	struct host_page *page;
	struct stat st;
	int fd;

	set_up();
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(ftruncate(fd, sizes[_i]), 0);
	close(fd);
	page = neighbour_page(path);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_size, NEIGHBOUR_PAGE_BYTES);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	host_page_close(page);
	ck_assert(!neighbour_page_exists(path));
}
END_TEST

START_TEST(removed_or_cut_is_noticed_and_kills_nobody)
{
	static const off_t sizes[] = { -1, 0, 100, NEIGHBOUR_SLOTS_AT + 10,
				       NEIGHBOUR_PAGE_BYTES - 64 };
	struct host_page *page, *again;
	struct calibration figures;
	uint64_t when;

	set_up();
	page = neighbour_page(path);
	ck_assert_int_eq(host_page_publish(page, neighbour_slot()), 0);
	if (sizes[_i] < 0)
		ck_assert_int_eq(unlink(path), 0);
	else
		ck_assert_int_eq(truncate(path, sizes[_i]), 0);
	ck_assert_int_eq(host_page_publish(page, neighbour_slot()), -ESTALE);
	ck_assert_uint_eq(neighbour_count(page), 0);
	ck_assert_int_eq(host_page_calibration(page, 0, clock_ns(), &figures,
					       &when),
			 -ENOENT);
	/* whose name it has by now stays */
	if (sizes[_i] < 0) {
		again = neighbour_page(path);
		host_page_close(page);
		ck_assert(neighbour_page_exists(path));
		host_page_close(again);
	} else {
		host_page_close(page);
	}
	ck_assert(!neighbour_page_exists(path));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("host_page");
	TCase *tcase = tcase_create("host_page");

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
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
