/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a sleep costs: what is believed, how it is shared and for how long, and
 * one real measurement whose figures nobody judges too closely.
 */
#include "poll/calibrate.h"
#include "poll/clock.h"
#include "poll/host_page.h"
#include "tests/scratch.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	const char *why;
	struct calibration figures;
	bool want;
} claims[] = {
	{ "as measured", { 25, 30, 10, 12000, 40000 }, true },
	{ "a fast machine", { 1, 1, 1, 500, 1000 }, true },
	{ "a slow one", { 1000, 1000, 1000, 300000, 1900000 }, true },
	{ "no clock", { 0, 30, 10, 12000, 40000 }, false },
	{ "no turn", { 25, 0, 10, 12000, 40000 }, false },
	{ "no arm", { 25, 30, 0, 12000, 40000 }, false },
	{ "a sleep for nothing", { 25, 30, 10, 10, 40000 }, false },
	{ "a wake in no time", { 25, 30, 10, 12000, 500 }, false },
	{ "a clock like a sleep", { 20000, 30, 10, 12000, 40000 }, false },
	{ "a turn like a sleep", { 25, 20000, 10, 12000, 40000 }, false },
	{ "an endless sleep", { 25, 30, 10, UINT32_MAX, 40000 }, false },
	{ "an endless wake", { 25, 30, 10, 12000, UINT32_MAX }, false },
	{ "nothing", { 0, 0, 0, 0, 0 }, false },
};

START_TEST(believes_only_what_can_be)
{
	ck_assert_msg(calibrate_plausible(&claims[_i].figures) ==
			      claims[_i].want,
		      "%s", claims[_i].why);
}
END_TEST

START_TEST(defaults_can_be)
{
	struct calibration figures;

	calibrate_defaults(&figures);
	ck_assert(calibrate_plausible(&figures));
	ck_assert_uint_eq(figures.wake_ns, 40000);
	ck_assert_uint_eq(figures.block_ns, 12000);
}
END_TEST

/* --- shared */

static const struct calibration good = { 25, 30, 10, 12000, 40000 };
static const uint64_t now = 10 * CALIBRATE_VALID_NS;
static char path[200];

static struct host_page *join(void)
{
	struct host_page *page = NULL;

	scratch_path(path, sizeof(path), "page");
	ck_assert_int_eq(host_page_open(path, &page), 0);
	return page;
}

static int take(struct host_page *page, uint64_t oldest, uint64_t at,
		struct calibration *out)
{
	uint64_t when = 0;
	int err = host_page_calibration(page, oldest, at, out, &when);

	if (!err)
		ck_assert_uint_eq(when, now);
	return err;
}

/* In another process, with the same CPUs or only the first of them. */
static int taken_elsewhere(bool one_cpu)
{
	int status = 0;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct host_page *page = NULL;
		struct calibration got;
		uint64_t when;
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		CPU_SET(0, &cpus);
		if (one_cpu && sched_setaffinity(0, sizeof(cpus), &cpus))
			_exit(99);
		if (host_page_open(path, &page))
			_exit(99);
		status = -host_page_calibration(page, 0, now, &got, &when);
		if (!status && memcmp(&got, &good, sizeof(got)) != 0)
			_exit(99);
		_exit(status);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return -WEXITSTATUS(status);
}

START_TEST(figures_are_shared_with_the_same_cpus)
{
	struct host_page *page = join();
	struct calibration got;
	cpu_set_t cpus;

	ck_assert_int_eq(take(page, 0, now, &got), -ENOENT);
	ck_assert_int_eq(host_page_calibrating(page), 0);
	ck_assert_int_eq(host_page_calibrated(page, now, &good), 0);
	ck_assert_int_eq(take(page, 0, now, &got), 0);
	ck_assert_mem_eq(&got, &good, sizeof(good));
	ck_assert_int_eq(taken_elsewhere(false), 0);
	if (!sched_getaffinity(0, sizeof(cpus), &cpus) && CPU_COUNT(&cpus) > 1)
		ck_assert_int_eq(taken_elsewhere(true), -ENOENT);
	host_page_close(page);
}
END_TEST

START_TEST(figures_expire)
{
	struct host_page *page = join();
	struct calibration got;

	ck_assert_int_eq(host_page_calibrated(page, now, &good), 0);
	ck_assert_int_eq(take(page, now, now, &got), 0);
	ck_assert_int_eq(take(page, now, now + CLOCK_SECOND, &got), 0);
	ck_assert_int_eq(take(page, now + 1, now + 1, &got), -ENOENT);
	ck_assert_int_eq(take(page, 0, now - 1, &got), -ENOENT); /* future */
	host_page_close(page);
}
END_TEST

START_TEST(what_cannot_be_is_not_taken_from_others)
{
	struct host_page *page = join();
	struct calibration got;

	ck_assert_int_eq(host_page_calibrated(page, now, &claims[_i].figures),
			 0);
	ck_assert_msg(take(page, 0, now, &got) ==
			      (claims[_i].want ? 0 : -ENOENT),
		      "%s", claims[_i].why);
	host_page_close(page);
}
END_TEST

START_TEST(one_measures_at_a_time)
{
	struct host_page *page = join();
	int to[2], status;
	pid_t pid;
	char c;

	ck_assert_int_eq(pipe(to), 0);
	pid = fork();
	if (!pid) {
		struct host_page *own = NULL;

		if (host_page_open(path, &own) || host_page_calibrating(own) ||
		    write(to[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	ck_assert_int_eq(read(to[0], &c, 1), 1);
	ck_assert_int_eq(host_page_calibrating(page), -EAGAIN);
	/* who dies while he measures stands in nobody's way */
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(host_page_calibrating(page), 0);
	ck_assert_int_eq(host_page_calibrated(page, now, NULL), 0);
	host_page_close(page);
}
END_TEST

/* --- measured */

/* Also for who is pinned to one CPU, and stays so. */
START_TEST(measures_this_machine)
{
	struct calibration got = { 0 };
	unsigned before = scratch_descriptors();
	cpu_set_t cpus, after;
	uint64_t start;
	int err = -ETIMEDOUT;

	if (_i) {
		CPU_ZERO(&cpus);
		CPU_SET(sched_getcpu(), &cpus);
		ck_assert_int_eq(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
	}
	ck_assert_int_eq(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	for (unsigned i = 0; err && i < 5; i++) {
		start = clock_ns();
		err = calibrate_measure(&got);
		/* however busy the machine, it ends */
		ck_assert_uint_lt(clock_ns() - start,
				  UINT64_C(10) * CLOCK_SECOND);
		ck_assert(!err || err == -ETIMEDOUT || err == -ERANGE);
	}
	ck_assert(err || calibrate_plausible(&got));
	ck_assert_uint_eq(scratch_descriptors(), before);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
	ck_assert(CPU_EQUAL(&cpus, &after));
}
END_TEST

START_TEST(measures_in_the_background)
{
	struct calibration got;
	struct calibrate run = { 0 };
	struct pollfd p;
	int err;

	p.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p.events = POLLIN;
	ck_assert_int_eq(calibrate_finish(&run, true, &got), -ENOENT);
	ck_assert_int_eq(calibrate_start(&run, p.fd), 0);
	ck_assert_int_eq(calibrate_start(&run, p.fd), -EALREADY);
	err = calibrate_finish(&run, false, &got);
	ck_assert(err == -EAGAIN || !err);
	ck_assert_int_eq(poll(&p, 1, 5000), 1);
	if (err)
		err = calibrate_finish(&run, false, &got);
	ck_assert(!err || err == -ETIMEDOUT || err == -ERANGE);
	ck_assert_int_eq(calibrate_finish(&run, true, &got), -ENOENT);
	/* again, and not waited for in between */
	ck_assert_int_eq(calibrate_start(&run, p.fd), 0);
	err = calibrate_finish(&run, true, &got);
	ck_assert(!err || err == -ETIMEDOUT || err == -ERANGE);
	close(p.fd);
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof(*(table))))

int main(void)
{
	Suite *suite = suite_create("calibrate");
	TCase *tcase = tcase_create("calibrate");
	SRunner *runner;
	int failed;

	scratch_open();
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, believes_only_what_can_be, 0, COUNT(claims));
	tcase_add_test(tcase, defaults_can_be);
	tcase_add_test(tcase, figures_are_shared_with_the_same_cpus);
	tcase_add_test(tcase, figures_expire);
	tcase_add_loop_test(tcase, what_cannot_be_is_not_taken_from_others, 0,
			    COUNT(claims));
	tcase_add_test(tcase, one_measures_at_a_time);
	tcase_add_loop_test(tcase, measures_this_machine, 0, 2);
	tcase_add_test(tcase, measures_in_the_background);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? 1 : 0;
}
