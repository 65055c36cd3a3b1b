/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The governor of spinning as a whole, on a made up /proc and a clock that the
 * test turns.  Its parts have tests of their own, test_cpu_*.c.
 */
#include <poll.h>
#include <sys/stat.h>
#include "poll/clock.h"
#include "poll/cpu.h"
#include "tests/rig.h"

#define MS UINT64_C(1000000)

static struct cpu_governor *governor;
static char proc[200], shm[200];
static uint64_t now = 1000 * CLOCK_SECOND;

static void write_text(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

/* 200 ticks a second in all, of which @idle_pct are idle. */
static void proc_says(uint64_t second, unsigned idle_pct)
{
	char text[100];

	snprintf(text, sizeof(text), "cpu  %lu 0 0 %lu 0 0 0 0 0 0\n",
		 (unsigned long)(second * 2 * (100 - idle_pct)),
		 (unsigned long)(second * 2 * idle_pct));
	write_text("stat", text);
}

static void set_up(void)
{
	char path[256];

	scratch_path(proc, sizeof(proc), "proc");
	scratch_path(shm, sizeof(shm), "shm");
	ck_assert_int_eq(mkdir(proc, 0700), 0);
	ck_assert_int_eq(mkdir(shm, 0700), 0);
	snprintf(path, sizeof(path), "%s/pressure", proc);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	setenv("TAPDISK_SHM_DIR", shm, 1);
}

static void start(void)
{
	ck_assert_int_eq(cpu_open(proc, now, &governor), 0);
}

static bool kicked(void)
{
	struct pollfd p = { .fd = cpu_fd(governor), .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static struct cpu_report report(void)
{
	struct cpu_report r;

	cpu_report(governor, &r);
	return r;
}

/* Data threads wait all the time, until @until. */
static void keep_waiting(uint64_t until)
{
	uint64_t next = now;

	while (now < until) {
		cpu_verdict_look(cpu_verdict(governor));
		if (now >= next || kicked())
			next = now + cpu_run(governor, now);
		now += 5 * MS;
	}
}

START_TEST(sleeps_until_somebody_waits)
{
	struct cpu_verdict *verdict;
	uint64_t next, turns = 0;

	set_up();
	proc_says(1, 80);
	start();
	verdict = cpu_verdict(governor);
	ck_assert(!kicked());
	ck_assert_uint_eq(cpu_run(governor, now), CLOCK_NEVER);

	cpu_verdict_look(verdict);
	ck_assert(kicked());
	cpu_verdict_look(verdict);
	next = cpu_run(governor, now);
	ck_assert_uint_le(next, 20 * MS);
	ck_assert_uint_gt(cpu_verdict_left(verdict), 0);
	cpu_verdict_look(verdict);

	/* nobody waits any more */
	while (next != CLOCK_NEVER) {
		now += next;
		next = cpu_run(governor, now);
		ck_assert_uint_lt(++turns, 50);
	}
	ck_assert_uint_ge(turns, 5);
	/* one kick for any number of waits, and it goes on */
	cpu_verdict_look(verdict);
	cpu_verdict_look(verdict);
	ck_assert_uint_lt(cpu_run(governor, now), CLOCK_NEVER);
	cpu_close(governor);
}
END_TEST

START_TEST(a_rest_saves_nothing)
{
	const struct cpu_price_settings settings = { .cap_pct = 1 };
	struct cpu_verdict *verdict;
	uint64_t next;

	set_up();
	proc_says(1, 80);
	start();
	verdict = cpu_verdict(governor);
	cpu_configure(governor, &settings);
	for (unsigned i = 0; i < 20; i++) {
		cpu_verdict_grant(verdict, 8 * MS); /* not used */
		keep_waiting(now + CLOCK_SECOND / 4);
	}
	ck_assert_uint_ge(cpu_verdict_left(verdict), 2 * MS);
	do {
		next = cpu_run(governor, now);
		now += next < CLOCK_SECOND ? next : 60 * CLOCK_SECOND;
	} while (next != CLOCK_NEVER);
	cpu_verdict_look(verdict);
	cpu_run(governor, now);
	ck_assert_uint_gt(cpu_verdict_left(verdict), 0);
	ck_assert_uint_le(cpu_verdict_left(verdict), MS / 2);
	cpu_close(governor);
}
END_TEST

START_TEST(threshold_opens_and_closes_as_the_host_goes)
{
	const struct cpu_price_settings settings = { .cap_pct = 100,
						     .threshold_pct = 50 };
	struct cpu_verdict *verdict;

	set_up();
	proc_says(1, 80);
	start();
	verdict = cpu_verdict(governor);
	cpu_configure(governor, &settings);
	keep_waiting(now + CLOCK_SECOND / 2);
	ck_assert(cpu_verdict_allowed(verdict)); /* not known yet */
	proc_says(2, 80);
	keep_waiting(now + CLOCK_SECOND);
	ck_assert_int_eq(report().idle_bp, 8000);
	ck_assert_str_eq(report().idle_source, "/proc/stat");
	ck_assert(cpu_verdict_allowed(verdict));
	write_text("stat", "cpu  260 0 0 340 0 0 0 0\n"); /* 220, 20 idle */
	keep_waiting(now + CLOCK_SECOND);
	ck_assert(!cpu_verdict_allowed(verdict));
	ck_assert_uint_eq(cpu_verdict_left(verdict), 0);
	ck_assert_uint_eq(cpu_verdict_grant(verdict, 1), 0);
	cpu_close(governor);
}
END_TEST

START_TEST(own_spinning_is_idle)
{
	struct cpu_verdict *verdict;

	set_up();
	proc_says(1, 50);
	start();
	verdict = cpu_verdict(governor);
	keep_waiting(now + CLOCK_SECOND / 2);
	/* 400 ms of spinning are 40 ticks of the 200 */
	cpu_verdict_pay(verdict, 400 * MS);
	proc_says(2, 50);
	keep_waiting(now + CLOCK_SECOND);
	ck_assert_int_eq(report().idle_bp, 7000);
	cpu_close(governor);
}
END_TEST

START_TEST(the_local_guest_does_not_count)
{
	char dir[256];

	set_up();
	proc_says(1, 50);
	snprintf(dir, sizeof(dir), "%s/7", proc);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	write_text("7/stat", "7 (g) R 1 7 7 0 -1 0 1 2 3 4 500 60 0 0 20\n");
	start();
	cpu_set_guest(governor, 7);
	keep_waiting(now + CLOCK_SECOND / 2);
	proc_says(2, 50);
	write_text("7/stat", "7 (g) R 1 7 7 0 -1 0 1 2 3 4 540 80 0 0 20\n");
	keep_waiting(now + CLOCK_SECOND);
	ck_assert_int_eq(report().idle_bp, 8000);
	cpu_close(governor);
}
END_TEST

static void cpumond_says(float busy, float idle)
{
	float page[2] = { busy, idle };
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/cpu_util_monitor", shm);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fwrite(page, sizeof(page), 1, f);
	fclose(f);
}

START_TEST(missing_information_never_forbids_and_is_said)
{
	const struct cpu_price_settings settings = { .cap_pct = 100,
						     .threshold_pct = 50 };

	set_up();
	setenv("TAPDISK_SHM_DIR", "/nonexistent", 1);
	start();
	cpu_configure(governor, &settings);
	keep_waiting(now + 3 * CLOCK_SECOND);
	ck_assert_int_eq(report().idle_bp, CPU_UNKNOWN);
	ck_assert_int_eq(report().pressure_bp, CPU_UNKNOWN);
	ck_assert_str_eq(report().idle_source, "none");
	ck_assert_ptr_nonnull(strstr(report().idle_why, "No such file"));
	ck_assert_ptr_nonnull(strstr(report().page_why, "No such file"));
	ck_assert(cpu_verdict_allowed(cpu_verdict(governor)));
	ck_assert_uint_gt(cpu_verdict_left(cpu_verdict(governor)), 8 * MS);
	cpu_close(governor);
}
END_TEST

START_TEST(cpumond_helps_out)
{
	const struct cpu_price_settings settings = { .cap_pct = 100,
						     .threshold_pct = 50 };

	set_up();
	start();
	cpu_configure(governor, &settings);
	keep_waiting(now + 2 * CLOCK_SECOND);
	ck_assert(cpu_verdict_allowed(cpu_verdict(governor)));
	cpumond_says(70, 30); /* it starts after us */
	keep_waiting(now + 2 * CLOCK_SECOND);
	ck_assert_int_eq(report().cpumond_bp, 3000);
	ck_assert_str_eq(report().idle_source, "cpumond");
	ck_assert(!cpu_verdict_allowed(cpu_verdict(governor)));
	cpumond_says(0, 0); /* and stops making sense */
	keep_waiting(now + 2 * CLOCK_SECOND);
	ck_assert_int_eq(report().cpumond_bp, CPU_UNKNOWN);
	ck_assert(cpu_verdict_allowed(cpu_verdict(governor)));
	cpu_close(governor);
}
END_TEST

START_TEST(pressure_is_that_of_the_last_second)
{
	set_up();
	proc_says(1, 80);
	write_text("pressure/cpu",
		   "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n");
	start();
	keep_waiting(now + 20 * MS);
	ck_assert_uint_eq(report().price_q16,
			  cpu_verdict_price(cpu_verdict(governor)));
	write_text("pressure/cpu",
		   "some avg10=3.00 avg60=0.00 avg300=0.00 total=1600000\n");
	keep_waiting(now + 1300 * MS);
	ck_assert_int_ge(report().pressure_bp, 4500);
	ck_assert_int_le(report().pressure_bp, 6000);
	ck_assert_uint_gt(cpu_verdict_price(cpu_verdict(governor)),
			  10 * CPU_PRICE_BASE);
	cpu_close(governor);
}
END_TEST

START_TEST(reconfiguring_acts_at_once)
{
	struct cpu_price_settings settings = { .cap_pct = 0 };
	struct cpu_verdict *verdict;

	set_up();
	proc_says(1, 80);
	start();
	verdict = cpu_verdict(governor);
	keep_waiting(now + CLOCK_SECOND);
	ck_assert_uint_lt(cpu_verdict_left(verdict), CLOCK_SECOND);
	cpu_configure(governor, &settings);
	ck_assert(kicked());
	cpu_run(governor, now);
	ck_assert_uint_gt(cpu_verdict_left(verdict), UINT64_MAX / 2);
	settings.base_q16 = CPU_PRICE_ONE;
	settings.cap_pct = 1;
	cpu_configure(governor, &settings);
	cpu_run(governor, now);
	ck_assert_uint_eq(cpu_verdict_price(verdict), CPU_PRICE_ONE);
	ck_assert_uint_le(cpu_verdict_left(verdict), 20 * MS);
	cpu_close(governor);
}
END_TEST

/* The real thing: figures arrive, and nothing is left. */
START_TEST(works_here)
{
	struct cpu_verdict *verdict;
	unsigned before, tries;
	uint64_t next;

	set_up();
	before = scratch_descriptors();
	ck_assert_int_eq(cpu_open("/proc", clock_ns(), &governor), 0);
	verdict = cpu_verdict(governor);
	for (tries = 0; tries < 500; tries++) {
		cpu_verdict_look(verdict);
		next = cpu_run(governor, clock_ns());
		ck_assert_uint_lt(next, CLOCK_SECOND);
		usleep(5000);
		if (report().costs_source == CALIBRATION_MEASURED &&
		    report().idle_bp >= 0)
			break;
		/* a machine too busy to measure says so */
		if (report().costs_why[0] && report().idle_bp >= 0)
			break;
	}
	ck_assert_int_ge(report().idle_bp, 0);
	ck_assert_str_eq(report().page_why, "");
	ck_assert_uint_eq(verdict->wake_ns, report().costs.wake_ns);
	cpu_close(governor);
	ck_assert_uint_eq(scratch_descriptors(), before);
	ck_assert_int_eq(rmdir(shm), 0); /* the last one out */
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cpu");
	TCase *tcase = tcase_create("cpu");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, sleeps_until_somebody_waits);
	tcase_add_test(tcase, a_rest_saves_nothing);
	tcase_add_test(tcase, threshold_opens_and_closes_as_the_host_goes);
	tcase_add_test(tcase, own_spinning_is_idle);
	tcase_add_test(tcase, the_local_guest_does_not_count);
	tcase_add_test(tcase, missing_information_never_forbids_and_is_said);
	tcase_add_test(tcase, cpumond_helps_out);
	tcase_add_test(tcase, pressure_is_that_of_the_last_second);
	tcase_add_test(tcase, reconfiguring_acts_at_once);
	tcase_add_test(tcase, works_here);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
