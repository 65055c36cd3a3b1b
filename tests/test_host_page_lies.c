/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page the tapdisks of a host share, among processes that lie and race: a
 * lie costs one fair share at most, and nothing is half read.
 */
#include <errno.h>
#include <sys/wait.h>
#include "poll/clock.h"
#include "tests/dice.h"
#include "tests/neighbour.h"
#include "tests/rig.h"

static char path[200];

static void set_up(void)
{
	scratch_path(path, sizeof(path), "page");
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

/* --- lies */

START_TEST(slots_without_a_process_count_nothing)
{
	static unsigned char slots[HOST_PAGE_SLOTS - 1][64];
	struct host_page *page;
	struct neighbour other;
	int fd;

	set_up();
	page = neighbour_page(path);
	other = neighbour_start(path, neighbour_is_busy);
	/* not closed: the locks of a process go with any descriptor it closes
	 */
	fd = open(path, O_RDONLY);
	ck_assert_int_eq(pread(fd, slots[0], 64, NEIGHBOUR_SLOTS_AT + 64), 64);
	for (unsigned i = 1; i < HOST_PAGE_SLOTS - 1; i++)
		memcpy(slots[i], slots[0], 64);
	scribble_elsewhere(slots, sizeof(slots), NEIGHBOUR_SLOTS_AT + 64);
	ck_assert_uint_eq(neighbour_count(page), 1);
	neighbour_finish(&other);
	host_page_close(page);
}
END_TEST

static void hold_many(struct host_page *page)
{
	unsigned char slot[64];
	struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(path, O_RDWR);

	host_page_publish(page, neighbour_slot());
	if (pread(fd, slot, sizeof(slot), NEIGHBOUR_SLOTS_AT + 64) != 64)
		_exit(1);
	for (unsigned i = 2; i < 200; i++) {
		range.l_start = NEIGHBOUR_SLOTS_AT + i * 64;
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
	struct neighbour other;

	set_up();
	page = neighbour_page(path);
	other = neighbour_start(path, hold_many);
	for (unsigned i = 0; i < 50; i++)
		ck_assert_uint_eq(neighbour_count(page), 1);
	neighbour_finish(&other);
	host_page_close(page);
}
END_TEST

START_TEST(a_spoilt_slot_costs_one_part)
{
	const struct cpu_price_peer *list;
	struct host_page *page;
	struct neighbour other;
	unsigned char slot[64];

	set_up();
	page = neighbour_page(path);
	other = neighbour_start(path, neighbour_is_busy);
	memset(slot, 0xa5, sizeof(slot));
	scribble_elsewhere(slot, sizeof(slot), NEIGHBOUR_SLOTS_AT + 64);
	ck_assert_uint_eq(host_page_peers(page, clock_ns(), &list), 1);
	ck_assert(list[0].hungry);
	neighbour_finish(&other);
	host_page_close(page);
}
END_TEST

/* The whole file is noise, over and over: never more peers than processes. */
START_TEST(noise_costs_no_more_than_the_processes_there_are)
{
	static unsigned char noise[NEIGHBOUR_PAGE_BYTES];
	struct dice dice = { (uint64_t)_i };
	struct neighbour others[2];
	struct host_page *page;
	struct calibration figures;
	uint64_t when;

	set_up();
	page = neighbour_page(path);
	others[0] = neighbour_start(path, neighbour_is_busy);
	others[1] = neighbour_start(path, neighbour_is_busy);
	for (unsigned round = 0; round < 20; round++) {
		for (size_t i = 0; i < NEIGHBOUR_PAGE_BYTES; i++)
			noise[i] = (unsigned char)dice_any(&dice);
		scribble_elsewhere(noise, sizeof(noise), 0);
		ck_assert_uint_le(neighbour_count(page), 2);
		ck_assert_int_eq(host_page_calibration(page, 0, UINT64_MAX,
						       &figures, &when),
				 -ENOENT);
		/* we repair our own */
		ck_assert_int_eq(host_page_publish(page, neighbour_slot()), 0);
	}
	neighbour_finish(&others[0]);
	neighbour_finish(&others[1]);
	host_page_close(page);
}
END_TEST

static void hold_all(struct host_page *page)
{
	struct flock range = { .l_type = F_WRLCK,
			       .l_whence = SEEK_SET,
			       .l_start = NEIGHBOUR_SLOTS_AT,
			       .l_len = NEIGHBOUR_PAGE_BYTES -
					NEIGHBOUR_SLOTS_AT };
	int fd = open(path, O_RDWR);

	(void)page;
	if (fcntl(fd, F_SETLK, &range))
		_exit(1);
}

START_TEST(a_full_page_is_an_error)
{
	struct host_page *page = NULL;
	struct neighbour other;

	set_up();
	other = neighbour_start(path, hold_all);
	ck_assert_int_eq(host_page_open(path, &page), -ENOSPC);
	ck_assert(neighbour_page_exists(path));
	neighbour_finish(&other);
	ck_assert(!neighbour_page_exists(path));
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
	struct neighbour other;

	set_up();
	other = neighbour_start(path, hold_door);
	ck_assert_int_eq(host_page_open(path, &page), -EBUSY);
	neighbour_finish(&other);
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
	page = neighbour_page(path);
	pid = fork();
	if (!pid) {
		struct host_page *own = NULL;
		struct host_page_slot slot;

		if (host_page_open(path, &own))
			_exit(1);
		for (unsigned i = 0; i < 30000; i++) {
			slot = *neighbour_slot();
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
			if (host_page_publish(page, neighbour_slot()))
				_exit(3);
			if (neighbour_count(page) > 7)
				_exit(4);
			host_page_close(page);
		}
		_exit(0);
	}
	for (unsigned i = 0; i < 8; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	}
	ck_assert(!neighbour_page_exists(path));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("host_page_lies");
	TCase *tcase = tcase_create("host_page_lies");

	tcase_set_timeout(tcase, 60);
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
	return rig_run(suite);
}
