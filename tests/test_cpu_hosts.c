/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many governors on one host, 1 to 256, simulated: that together they keep to
 * the cap, use it, share it fairly and agree on a price.
 */
#include "poll/clock.h"
#include "poll/cpu_price.h"
#include "poll/cpu_verdict.h"
#include "tests/dice.h"
#include "tests/rig.h"

#define MS UINT64_C(1000000)

#define COUNT(table) ((int)(sizeof(table) / sizeof(*(table))))

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

int main(void)
{
	Suite *suite = suite_create("cpu_hosts");
	TCase *tcase = tcase_create("cpu_hosts");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, holds_the_cap_and_uses_it, 0, COUNT(hosts));
	tcase_add_loop_test(tcase, price_settles, 0, 7);
	tcase_add_test(tcase, an_unused_cap_keeps_the_base_price);
	tcase_add_test(tcase, starting_together_is_no_way_around_the_cap);
	tcase_add_test(tcase, who_wants_little_leaves_the_rest);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
