/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The governor of spinning: what /proc says in all its variants, share and
 * price in simulated hosts of 1 to 256 tapdisks, and the whole of it on a made
 * up /proc and a clock that the test turns.
 */
#include "poll/clock.h"
#include "poll/cpu.h"
#include "poll/cpu_idle.h"
#include "tests/dice.h"
#include "tests/scratch.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MS UINT64_C(1000000)

/* --- what /proc says */

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

/* --- share */

#define ANY 0, true

static const struct {
	const char *why;
	uint64_t cap;
	struct cpu_price_peer peers[4];
	size_t n;
	uint32_t want;
} levels[] = {
	{ "alone", 1000, { { 0 } }, 0, 1000 },
	{ "equal parts", 1000, { { ANY }, { ANY }, { ANY } }, 3, 250 },
	{ "what others leave", 1000, { { 100, false }, { ANY } }, 2, 450 },
	{ "idle ones cost nothing",
	  1000,
	  { { 0, false }, { 0, false } },
	  2,
	  1000 },
	{ "more than its part is its part", 1000, { { 900, false } }, 1, 500 },
	{ "one after the other finds its place",
	  1000,
	  { { 100, false }, { 220, false }, { 260, false }, { ANY } },
	  4,
	  226 },
	{ "a lie costs a part",
	  1000,
	  { { UINT32_MAX, true }, { UINT32_MAX, false } },
	  2,
	  333 },
	{ "nothing to share", 0, { { ANY } }, 1, 0 },
	{ "without end", UINT64_MAX, { { 0 } }, 0, UINT32_MAX },
};

START_TEST(shares_what_others_leave)
{
	uint32_t got =
		cpu_price_share(levels[_i].cap, levels[_i].peers, levels[_i].n);

	ck_assert_msg(got == levels[_i].want, "%s: %u", levels[_i].why, got);
}
END_TEST

/* Random peers: all together stay below the cap, nobody gets less than 1/n. */
START_TEST(no_claim_costs_more_than_a_part)
{
	struct dice dice = { 77 };
	struct cpu_price_peer peers[64];

	for (unsigned round = 0; round < 3000; round++) {
		size_t n = dice_below(&dice, 65);
		uint64_t cap = dice_below(&dice, 4) * CPU_PRICE_CPU / 2 + 1;
		uint64_t sum;
		uint32_t share;

		for (size_t i = 0; i < n; i++) {
			peers[i].rate =
				(uint32_t)(dice_any(&dice) >>
					   (32 + dice_below(&dice, 32)));
			peers[i].hungry = dice_below(&dice, 3) == 0;
		}
		share = cpu_price_share(cap, peers, n);
		ck_assert_uint_ge(share, cap / (n + 1));
		sum = share;
		for (size_t i = 0; i < n; i++)
			sum += peers[i].hungry || peers[i].rate > share
				       ? share
				       : peers[i].rate;
		ck_assert_uint_le(sum, cap);
	}
}
END_TEST

/* --- simulated hosts */

enum demand {
	FIXED, /* spins at every wait, as fixed mode does */
	EXACT, /* gaps are known: spins when that pays at the price */
	BROAD, /* exponential gaps, spins up to break-even */
};

struct tapdisk {
	struct cpu_price price;
	struct cpu_price_answer answer;
	struct cpu_verdict verdict;
	struct cpu_price_peer said;
	uint64_t gap_ns;
	uint64_t now_ns, turn_at, turned_at, turn_ns;
	uint64_t seen_spent;
	uint32_t seen_asked, seen_refused;
	uint64_t spent_mark;
	double low, high; /* of the price, since it settled */
};

struct host {
	struct tapdisk disk[256];
	unsigned n;
	struct cpu_price_settings settings;
	enum demand demand;
	struct dice dice;
};

#define SLEEP_NS 40000.0
#define SLEEP_CPU_NS 12000.0
#define SERVICE_NS 50000

/* One wait of @t; its clock goes on. */
static void one_wait(struct host *host, struct tapdisk *t)
{
	double price = t->verdict.price_q16 / 65536.0;
	uint64_t even = (uint64_t)(SLEEP_NS / price + SLEEP_CPU_NS);
	uint64_t tau = 8 * MS, gap = t->gap_ns;

	if (host->demand == BROAD)
		gap = (uint64_t)(-log(1 - dice_share(&host->dice)) *
				 (double)gap);
	if (host->demand == EXACT)
		tau = gap <= even ? gap : 0;
	if (host->demand == BROAD && tau > even)
		tau = even;
	t->now_ns += gap + SERVICE_NS;
	if (!tau || !cpu_verdict_grant(&t->verdict, tau)) {
		t->now_ns += (uint64_t)SLEEP_NS;
		return;
	}
	cpu_verdict_pay(&t->verdict, gap < tau ? gap : tau);
}

static void take_turn(struct host *host, struct tapdisk *t)
{
	struct cpu_price_peer peers[256];
	struct cpu_price_inputs in = {
		.first = !t->turned_at,
		.elapsed_ns = t->turn_at - t->turned_at,
		.spent_ns = t->verdict.spent_ns - t->seen_spent,
		.wanted_ns = t->verdict.wanted_ns,
		.asked = t->verdict.asked - t->seen_asked,
		.refused = t->verdict.refused - t->seen_refused,
		.idle_bp = CPU_UNKNOWN,
		.pressure_bp = CPU_UNKNOWN,
		.peers = peers,
	};

	for (unsigned i = 0; i < host->n; i++)
		if (&host->disk[i] != t && host->disk[i].turned_at)
			peers[in.nr_peers++] = host->disk[i].said;
	t->turn_ns = t->turn_ns ? 2 * t->turn_ns : 10 * MS;
	if (t->turn_ns > 200 * MS + host->n * MS)
		t->turn_ns = 200 * MS + host->n * MS;
	in.next_ns = t->turn_ns;
	cpu_price_step(&t->price, &host->settings, &in, &t->answer);
	t->verdict.wanted_ns = 0;
	t->seen_spent = t->verdict.spent_ns;
	t->seen_asked = t->verdict.asked;
	t->seen_refused = t->verdict.refused;
	t->verdict.price_q16 = t->answer.price_q16;
	t->verdict.allowed = t->answer.allowed;
	t->verdict.limit_ns = t->answer.purse_ns == UINT64_MAX
				      ? UINT64_MAX
				      : t->seen_spent + t->answer.purse_ns;
	t->said.rate = t->answer.rate;
	t->said.hungry = t->answer.hungry;
	t->turned_at = t->turn_at;
	t->turn_at += t->turn_ns + dice_below(&host->dice, 20 * MS);
}

static struct host *host_with(unsigned n, enum demand demand, uint64_t gap_ns,
			      const struct cpu_price_settings *settings)
{
	struct host *host = NULL;

	ck_assert_int_eq(posix_memalign((void **)&host, 64, sizeof(*host)), 0);
	memset(host, 0, sizeof(*host));
	host->n = n;
	host->demand = demand;
	host->settings = *settings;
	host->dice.state = n;
	for (unsigned i = 0; i < n; i++) {
		host->disk[i].gap_ns = gap_ns;
		/* within 5 ms: worse than it can be */
		host->disk[i].turn_at = 1 + dice_below(&host->dice, 5 * MS);
		host->disk[i].verdict.price_q16 = CPU_PRICE_BASE;
		cpu_price_init(&host->disk[i].price, settings);
	}
	return host;
}

static void go_on(struct host *host, uint64_t until)
{
	for (;;) {
		struct tapdisk *next = &host->disk[0];

		for (unsigned i = 1; i < host->n; i++)
			if (host->disk[i].turn_at < next->turn_at)
				next = &host->disk[i];
		if (next->turn_at >= until)
			break;
		for (unsigned i = 0; i < host->n; i++)
			while (host->disk[i].now_ns < next->turn_at)
				one_wait(host, &host->disk[i]);
		take_turn(host, next);
		if (next->high < next->verdict.price_q16 / 65536.0)
			next->high = next->verdict.price_q16 / 65536.0;
		if (next->low > next->verdict.price_q16 / 65536.0)
			next->low = next->verdict.price_q16 / 65536.0;
	}
}

/* Measure anew from here. */
static void mark(struct host *host)
{
	for (unsigned i = 0; i < host->n; i++) {
		host->disk[i].spent_mark = host->disk[i].verdict.spent_ns;
		host->disk[i].high = 0;
		host->disk[i].low = 16;
	}
}

/* Spent since mark, all tapdisks, as a share of @time_ns; @jain over them. */
static double spent(const struct host *host, uint64_t time_ns, double *jain)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < host->n; i++) {
		double x = (double)(host->disk[i].verdict.spent_ns -
				    host->disk[i].spent_mark);

		sum += x;
		squares += x * x;
	}
	if (jain)
		*jain = squares > 0 ? sum * sum / (host->n * squares) : 1;
	return sum / (double)time_ns;
}

static const struct {
	const char *why;
	unsigned n;
	enum demand demand;
	uint64_t gap_us;
	uint32_t cap_pct;
	bool spend;
} hosts[] = {
	{ "one, fixed", 1, FIXED, 2000, 20, false },
	{ "16, fixed, think 2 ms", 16, FIXED, 2000, 20, false },
	{ "64, fixed, think 2 ms", 64, FIXED, 2000, 20, false },
	{ "256, fixed, think 2 ms", 256, FIXED, 2000, 20, false },
	{ "64, fixed, cap 100", 64, FIXED, 2000, 100, false },
	{ "2, fixed, think 50 us", 2, FIXED, 50, 20, false },
	{ "16, fixed, think 5 us", 16, FIXED, 5, 100, false },
	{ "16, adaptive, spends its cap", 16, EXACT, 1000, 20, true },
	{ "64, adaptive, spends its cap", 64, EXACT, 1000, 20, true },
	{ "4, adaptive, spends its cap", 4, EXACT, 1500, 20, true },
	{ "4, adaptive, exponential", 4, BROAD, 300, 20, true },
	{ "16, adaptive, exponential", 16, BROAD, 300, 100, false },
	{ "64, adaptive, exponential", 64, BROAD, 200, 100, false },
	{ "256, adaptive, exponential", 256, BROAD, 200, 100, false },
};

/*
 * From the first second on, in each ten seconds: at most 1.1 of the cap, at
 * least 0.8 of it, and fair.
 */
START_TEST(holds_the_cap_and_uses_it)
{
	const struct cpu_price_settings settings = { .cap_pct =
							     hosts[_i].cap_pct,
						     .spend = hosts[_i].spend };
	struct host *host = host_with(hosts[_i].n, hosts[_i].demand,
				      hosts[_i].gap_us * 1000, &settings);
	double cap = hosts[_i].cap_pct / 100.0, used, jain;

	for (uint64_t s = 0; s < 60; s += 10) {
		mark(host);
		go_on(host, (s + 10) * CLOCK_SECOND);
		used = spent(host, 10 * CLOCK_SECOND, &jain) / cap;
		ck_assert_msg(used <= 1.1, "%s, second %u: %.3f of the cap",
			      hosts[_i].why, (unsigned)s, used);
		/* of the first ten, filling the purses may take a part */
		ck_assert_msg(used >= (s ? 0.8 : 0.4),
			      "%s, second %u: %.3f of the cap", hosts[_i].why,
			      (unsigned)s, used);
		ck_assert_msg(!s || jain >= 0.95, "%s, second %u: Jain %.3f",
			      hosts[_i].why, (unsigned)s, jain);
	}
	free(host);
}
END_TEST

/* A price that has settled stays within a factor, and is the same for all. */
START_TEST(price_settles)
{
	static const unsigned sizes[] = { 1, 2, 4, 8, 16, 64, 256 };
	const struct cpu_price_settings settings = { .cap_pct = 50 };
	struct host *host = host_with(sizes[_i], BROAD, 300000, &settings);
	double low = 16, high = 0;

	go_on(host, 60 * CLOCK_SECOND);
	mark(host);
	go_on(host, 100 * CLOCK_SECOND);
	for (unsigned i = 0; i < host->n; i++) {
		const struct tapdisk *t = &host->disk[i];

		ck_assert_msg(t->high <= t->low * 1.6, "%u: from %.3f to %.3f",
			      host->n, t->low, t->high);
		low = t->low < low ? t->low : low;
		high = t->high > high ? t->high : high;
	}
	ck_assert_msg(high <= low * 2, "%u: from %.3f to %.3f", host->n, low,
		      high);
	free(host);
}
END_TEST

START_TEST(an_unused_cap_keeps_the_base_price)
{
	const struct cpu_price_settings settings = { .cap_pct = 100 };
	struct host *host = host_with(1, EXACT, 1000000, &settings);

	go_on(host, 10 * CLOCK_SECOND);
	ck_assert_uint_le(host->disk[0].verdict.price_q16, CPU_PRICE_BASE);
	ck_assert_uint_ge(host->disk[0].verdict.price_q16,
			  CPU_PRICE_BASE - CPU_PRICE_BASE / 100);
	ck_assert_uint_eq(host->disk[0].verdict.spent_ns, 0);
	free(host);
}
END_TEST

/* Nobody gets a purse of his own before he has seen the others. */
START_TEST(starting_together_is_no_way_around_the_cap)
{
	const struct cpu_price_settings settings = { .cap_pct = 20 };
	struct host *host = host_with(64, FIXED, 2000000, &settings);

	mark(host);
	go_on(host, CLOCK_SECOND);
	ck_assert_double_le(spent(host, CLOCK_SECOND, NULL), 0.4);
	free(host);
}
END_TEST

START_TEST(who_wants_little_leaves_the_rest)
{
	const struct cpu_price_settings settings = { .cap_pct = 40 };
	struct host *host = host_with(4, FIXED, 1000000, &settings);
	double used[4];

	/* 20 us in 2 ms each, and two that would spin all the time */
	for (unsigned i = 0; i < 2; i++)
		host->disk[i].gap_ns = 20000;
	go_on(host, 20 * CLOCK_SECOND);
	mark(host);
	go_on(host, 40 * CLOCK_SECOND);
	for (unsigned i = 0; i < 4; i++)
		used[i] = (double)(host->disk[i].verdict.spent_ns -
				   host->disk[i].spent_mark) /
			  20e9;
	for (unsigned i = 0; i < 4; i++)
		ck_assert_double_ge(used[i], 0.08);
	ck_assert_double_ge(spent(host, 20 * CLOCK_SECOND, NULL), 0.32);
	ck_assert_double_le(spent(host, 20 * CLOCK_SECOND, NULL), 0.44);
	free(host);
}
END_TEST

/* --- one step */

static struct cpu_price_answer step(struct cpu_price *price,
				    const struct cpu_price_settings *settings,
				    int32_t idle_bp, int32_t pressure_bp,
				    uint32_t lost)
{
	const struct cpu_price_inputs in = { .elapsed_ns = 200 * MS,
					     .next_ns = 200 * MS,
					     .lost = lost,
					     .idle_bp = idle_bp,
					     .pressure_bp = pressure_bp };
	struct cpu_price_answer answer;

	cpu_price_step(price, settings, &in, &answer);
	return answer;
}

static const struct {
	const char *why;
	int32_t idle_bp, pressure_bp;
	uint32_t lost;
	double factor; /* of the base price, at least; 1 exactly */
} strains[] = {
	{ "nothing known", CPU_UNKNOWN, CPU_UNKNOWN, 0, 1 },
	{ "idle", 9000, 0, 0, 1 },
	{ "some waiting", 9000, 1000, 0, 1 },
	{ "20 % waiting", 9000, 2000, 0, 1.9 },
	{ "50 % waiting", 9000, 5000, 0, 15 },
	{ "all waiting", 9000, 10000, 0, 150 },
	{ "5 % idle", 500, CPU_UNKNOWN, 0, 10 },
	{ "not idle", 0, 0, 0, 120 },
	{ "the CPU was lost once", 9000, 0, 1, 1 },
	{ "the CPU was lost twice", 9000, 0, 2, 3.9 },
};

START_TEST(pressure_raises_the_price_at_once_and_lets_go_slowly)
{
	const struct cpu_price_settings settings = { .cap_pct = 100 };
	struct cpu_price_answer answer, calm;
	struct cpu_price price;
	double factor;

	cpu_price_init(&price, &settings);
	calm = step(&price, &settings, 9000, 0, 0);
	answer = step(&price, &settings, strains[_i].idle_bp,
		      strains[_i].pressure_bp, strains[_i].lost);
	factor = (double)answer.price_q16 / calm.price_q16;
	ck_assert_msg(factor >= strains[_i].factor, "%s: %.2f", strains[_i].why,
		      factor);
	ck_assert_msg(strains[_i].factor > 1 || factor <= 1, "%s: %.2f",
		      strains[_i].why, factor);
	ck_assert_uint_le(answer.price_q16, CPU_PRICE_MAX);
	for (unsigned i = 0; i < 50; i++) {
		uint32_t last = answer.price_q16;

		answer = step(&price, &settings, 9000, 0, 0);
		ck_assert_uint_le(answer.price_q16, last);
		ck_assert_uint_ge(answer.price_q16 * 4, last * 3);
	}
	ck_assert_uint_eq(answer.price_q16, calm.price_q16);
}
END_TEST

static const struct {
	const char *why;
	uint32_t threshold;
	int32_t idle_bp;
	bool allowed;
} gates[] = {
	{ "no gate", 0, 0, true },
	{ "above", 50, 5001, true },
	{ "at the threshold is not above", 50, 5000, false },
	{ "below", 50, 100, false },
	{ "not known never forbids", 50, CPU_UNKNOWN, true },
	{ "never", 100, 10000, false },
	{ "beyond all", UINT32_MAX, 10000, false },
};

START_TEST(threshold_forbids_only_what_is_known)
{
	const struct cpu_price_settings settings = {
		.cap_pct = 100, .threshold_pct = gates[_i].threshold
	};
	struct cpu_price price;

	cpu_price_init(&price, &settings);
	ck_assert_msg(
		step(&price, &settings, gates[_i].idle_bp, 0, 0).allowed ==
			gates[_i].allowed,
		"%s", gates[_i].why);
}
END_TEST

/* Whatever comes, the answer stays within its bounds. */
START_TEST(survives_any_input)
{
	struct dice dice = { 4711 };
	struct cpu_price_settings settings = { 0 };
	struct cpu_price_answer answer;
	struct cpu_price price;
	uint64_t most;

	cpu_price_init(&price, &settings);
	for (unsigned i = 0; i < 200000; i++) {
		struct cpu_price_peer peer = { (uint32_t)dice_any(&dice),
					       dice_below(&dice, 2) };
		struct cpu_price_inputs in = {
			.elapsed_ns = dice_any(&dice) >> dice_below(&dice, 64),
			.next_ns = dice_below(&dice, 4 * CLOCK_SECOND),
			.spent_ns = dice_any(&dice) >> dice_below(&dice, 64),
			.wanted_ns = dice_any(&dice) >> dice_below(&dice, 64),
			.asked = (uint32_t)dice_any(&dice),
			.refused = (uint32_t)dice_any(&dice),
			.first = !dice_below(&dice, 50),
			.lost = (uint32_t)dice_below(&dice, 4),
			.idle_bp = (int32_t)dice_below(&dice, 10002) - 1,
			.pressure_bp = (int32_t)dice_below(&dice, 10002) - 1,
			.peers = &peer,
			.nr_peers = dice_below(&dice, 2),
		};

		if (!dice_below(&dice, 100)) {
			settings.cap_pct =
				(uint32_t)(dice_any(&dice) >>
					   (32 + dice_below(&dice, 32)));
			settings.base_q16 =
				(uint32_t)(dice_any(&dice) >>
					   (32 + dice_below(&dice, 32)));

			settings.spend = dice_below(&dice, 2);
		}
		cpu_price_step(&price, &settings, &in, &answer);
		ck_assert_uint_ge(answer.price_q16, CPU_PRICE_MIN);
		ck_assert_uint_le(answer.price_q16, CPU_PRICE_MAX);
		if (answer.share == UINT32_MAX)
			continue;
		most = (uint64_t)((double)(in.next_ns * 2 + 200 * MS) * 1e-9 *
				  answer.share) +
		       16 * MS + 1000;
		ck_assert_uint_le(answer.purse_ns, most);
	}
}
END_TEST

/* --- the whole, on a made up /proc */

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

#define COUNT(table) ((int)(sizeof(table) / sizeof(*(table))))

int main(void)
{
	Suite *suite = suite_create("cpu");
	TCase *tcase = tcase_create("cpu");
	SRunner *runner;
	int failed;

	scratch_open();
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, reads_every_stat, 0, COUNT(stats));
	tcase_add_loop_test(tcase, counts_idle_honestly, 0, COUNT(shares));
	tcase_add_loop_test(tcase, reads_every_pressure, 0, COUNT(pressures));
	tcase_add_loop_test(tcase, reads_every_process, 0, COUNT(processes));
	tcase_add_loop_test(tcase, believes_cpumond_only_if_it_can_be_true, 0,
			    COUNT(monitors));
	tcase_add_loop_test(tcase, shares_what_others_leave, 0, COUNT(levels));
	tcase_add_test(tcase, no_claim_costs_more_than_a_part);
	tcase_add_loop_test(tcase, holds_the_cap_and_uses_it, 0, COUNT(hosts));
	tcase_add_loop_test(tcase, price_settles, 0, 7);
	tcase_add_test(tcase, an_unused_cap_keeps_the_base_price);
	tcase_add_test(tcase, starting_together_is_no_way_around_the_cap);
	tcase_add_test(tcase, who_wants_little_leaves_the_rest);
	tcase_add_loop_test(
		tcase, pressure_raises_the_price_at_once_and_lets_go_slowly, 0,
		COUNT(strains));
	tcase_add_loop_test(tcase, threshold_forbids_only_what_is_known, 0,
			    COUNT(gates));
	tcase_add_test(tcase, survives_any_input);
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
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	scratch_close();
	return failed ? 1 : 0;
}
