/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What /proc and cpumond say of a host's idle CPU, in all their variants: what
 * they mean, and what is not believed.
 */
#include <errno.h>
#include <math.h>
#include "poll/cpu_idle.h"
#include "tests/rig.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof(*(table))))

static const struct {
	const char *why, *text;
	int want;
	uint64_t idle, total;
} stats[] = {
	{ "a line of today: guests are in user and nice",
	  "cpu  100 20 30 400 50 6 7 8 90 10\ncpu0 1 2 3 4\n", 0, 450, 621 },
	{ "stolen time is time, and not idle", "cpu  0 0 0 50 0 0 0 50 0 0\n",
	  0, 50, 100 },
	{ "no guest fields", "cpu  1 2 3 4 5 6 7 8\n", 0, 9, 36 },
	{ "no steal", "cpu  1 2 3 4 5 6 7\n", 0, 9, 28 },
	{ "four fields", "cpu  1 2 3 4\n", 0, 4, 10 },
	{ "fields to come", "cpu  1 2 3 4 5 6 7 8 9 10 11 12\n", 0, 9, 36 },
	{ "no end of line", "cpu  1 2 3 4", 0, 4, 10 },
	{ "three fields", "cpu  1 2 3\n", -EINVAL, 0, 0 },
	{ "one CPU is not all", "cpu0 1 2 3 4\n", -EINVAL, 0, 0 },
	{ "nothing", "", -EINVAL, 0, 0 },
	{ "negative", "cpu  1 2 3 -4\n", -EINVAL, 0, 0 },
	{ "a word", "cpu  1 2 x 4\n", -EINVAL, 0, 0 },
	{ "more than there is", "cpu  1 2 3 99999999999999999999\n", -EINVAL, 0,
	  0 },
	{ "enough to overflow the sum",
	  "cpu  9223372036854775807 9223372036854775807 1 1\n", -EINVAL, 0, 0 },
};

START_TEST(reads_every_stat)
{
	struct cpu_times times = { 0 };
	int err = cpu_idle_parse(stats[_i].text, &times);

	ck_assert_msg(err == stats[_i].want, "%s: %d", stats[_i].why, err);
	ck_assert_msg(times.idle == stats[_i].idle, "%s: idle %lu",
		      stats[_i].why, (unsigned long)times.idle);
	ck_assert_msg(times.total == stats[_i].total, "%s: total %lu",
		      stats[_i].why, (unsigned long)times.total);
}
END_TEST

static const struct {
	const char *why;
	struct cpu_times before, now;
	uint64_t spun;
	int32_t want;
} shares[] = {
	{ "half", { 100, 200 }, { 150, 300 }, 0, 5000 },
	{ "spinning is idle", { 100, 200 }, { 150, 300 }, 25, 7500 },
	{ "no more than all", { 100, 200 }, { 150, 300 }, 500, 10000 },
	{ "a lie of spinning", { 0, 0 }, { 0, 10 }, UINT64_MAX, 10000 },
	{ "none", { 100, 200 }, { 100, 300 }, 0, 0 },
	{ "no time has passed", { 100, 200 }, { 100, 200 }, 0, -1 },
	{ "time went back", { 100, 200 }, { 10, 20 }, 0, -1 },
	{ "iowait went back", { 100, 200 }, { 90, 300 }, 0, 0 },
	{ "more idle than time", { 100, 200 }, { 400, 300 }, 0, 10000 },
};

START_TEST(counts_idle_honestly)
{
	int32_t got = cpu_idle_share(&shares[_i].before, &shares[_i].now,
				     shares[_i].spun);

	ck_assert_msg(got == shares[_i].want, "%s: %d", shares[_i].why, got);
}
END_TEST

static const struct {
	const char *why, *text;
	int want;
	int32_t avg;
	uint64_t total;
} pressures[] = {
	{ "two lines",
	  "some avg10=28.86 avg60=43.01 avg300=56.46 total=1536351117\n"
	  "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	  0, 2886, 1536351117 },
	{ "one line", "some avg10=0.05 avg60=0.00 avg300=0.00 total=7\n", 0, 5,
	  7 },
	{ "all", "some avg10=100.00 avg60=0.00 avg300=0.00 total=7\n", 0, 10000,
	  7 },
	{ "above all", "some avg10=100.99 avg60=0.00 avg300=0.00 total=7\n", 0,
	  10000, 7 },
	{ "full only", "full avg10=1.00 avg60=0.00 avg300=0.00 total=7\n",
	  -EINVAL, 0, 0 },
	{ "too much", "some avg10=1000.00 total=7\n", -EINVAL, 0, 0 },
	{ "no total", "some avg10=1.00 avg60=0.00\n", -EINVAL, 0, 0 },
	{ "nothing", "", -EINVAL, 0, 0 },
};

START_TEST(reads_every_pressure)
{
	struct cpu_pressure pressure = { 0 };
	int err = cpu_idle_parse_pressure(pressures[_i].text, &pressure);

	ck_assert_msg(err == pressures[_i].want, "%s: %d", pressures[_i].why,
		      err);
	if (err)
		return;
	ck_assert_msg(pressure.avg10_bp == pressures[_i].avg, "%s: %d",
		      pressures[_i].why, pressure.avg10_bp);
	ck_assert_uint_eq(pressure.total_us, pressures[_i].total);
}
END_TEST

static const struct {
	const char *why, *text;
	int want;
	uint64_t ticks;
} processes[] = {
	{ "plain",
	  "7 (bench) S 1 7 7 0 -1 4194304 10 20 30 40 50 60 70 80 20 0 1\n", 0,
	  110 },
	{ "a name with brackets",
	  "7 (a) S 1) (b) R 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0\n", 0, 11 },
	{ "cut short", "7 (bench) S 1 7 7 0 -1 4194304 10 20 30 40 50", -EINVAL,
	  0 },
	{ "no name", "7 S 1 7 7", -EINVAL, 0 },
	{ "nothing", "", -EINVAL, 0 },
};

START_TEST(reads_every_process)
{
	uint64_t ticks = 0;
	int err = cpu_idle_parse_process(processes[_i].text, &ticks);

	ck_assert_msg(err == processes[_i].want, "%s: %d", processes[_i].why,
		      err);
	ck_assert_msg(ticks == processes[_i].ticks, "%s: %lu",
		      processes[_i].why, (unsigned long)ticks);
}
END_TEST

static const struct {
	const char *why;
	float busy, idle;
	size_t len;
	int32_t want;
} monitors[] = {
	{ "as it should be", 25, 75, 8, 7500 },
	{ "all idle", 0, 100, 8, 10000 },
	{ "never written", 0, 0, 8, -1 },
	{ "no sum", 30, 30, 8, -1 },
	{ "too much", 0, 101, 8, -1 },
	{ "negative", -1, 101, 8, -1 },
	{ "not a number", NAN, NAN, 8, -1 },
	{ "infinite", INFINITY, -INFINITY, 8, -1 },
	{ "cut short", 25, 75, 7, -1 },
};

START_TEST(believes_cpumond_only_if_it_can_be_true)
{
	float page[2] = { monitors[_i].busy, monitors[_i].idle };
	int32_t got = cpu_idle_cpumond(page, monitors[_i].len);

	ck_assert_msg(got == monitors[_i].want, "%s: %d", monitors[_i].why,
		      got);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cpu_idle");
	TCase *tcase = tcase_create("cpu_idle");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, reads_every_stat, 0, COUNT(stats));
	tcase_add_loop_test(tcase, counts_idle_honestly, 0, COUNT(shares));
	tcase_add_loop_test(tcase, reads_every_pressure, 0, COUNT(pressures));
	tcase_add_loop_test(tcase, reads_every_process, 0, COUNT(processes));
	tcase_add_loop_test(tcase, believes_cpumond_only_if_it_can_be_true, 0,
			    COUNT(monitors));
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
