/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The advice against the traces themselves: six kinds of guests, each judged
 * gap by gap, in every setting that prices can have; and the picture of it.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/ctl/advise.h"
#include "tools/ctl/plot.h"

#define US 1000.0
#define MS 1000000.0

enum { WAITS = 4000 };

/* ---- guests ---- */

/* The same numbers everywhere: never 0, never 1. */
static double share(void)
{
	static uint64_t state = 88172645463325252;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return ((double)(state >> 11) + .5) / 9007199254740992.0;
}

static double exponential(double mean)
{
	return -mean * log(share());
}

static double poisson(unsigned i)
{
	(void)i;
	return exponential(50 * US);
}

static double pareto(unsigned i)
{
	(void)i;
	return 8 * US * pow(share(), -1 / 1.2);
}

static double burst(unsigned i)
{
	return i % 32 ? 5 * US + exponential(3 * US) : exponential(5 * MS);
}

static double sqlite(unsigned i)
{
	return i % 4 ? 20 * US + exponential(8 * US)
		     : 300 * US + exponential(900 * US);
}

static double periodic(unsigned i)
{
	(void)i;
	return 1.3 * MS * (.95 + .1 * share());
}

static double bimodal(unsigned i)
{
	(void)i;
	return share() < .6 ? 90 * US * (.8 + .4 * share()) : 12 * MS;
}

static double (*const guests[])(unsigned) = { poisson, pareto,	 burst,
					      sqlite,  periodic, bimodal };
#define NR_GUESTS ((int)(sizeof(guests) / sizeof(guests[0])))

static const struct setting {
	double w0_us, price, rho;
} settings[] = {
	{ 35, 1, 0 },	{ 35, 1, 1 },	  { 35, .2, 0 }, { 35, .2, .2 },
	{ 35, .05, 0 }, { 35, .05, .05 }, { 10, 1, .3 }, { 10, .2, .1 },
	{ 10, .05, 0 }, { 80, .1, .1 },
};
#define NR_SETTINGS ((int)(sizeof(settings) / sizeof(settings[0])))

static double gaps_ns[WAITS];
static struct gaps counted;

static void meet(int guest)
{
	memset(&counted, 0, sizeof(counted));
	for (unsigned i = 0; i < WAITS; i++) {
		gaps_ns[i] = floor(guests[guest](i));
		gaps_add(&counted, WAIT_GUEST, POLICY_READ,
			 (uint64_t)gaps_ns[i]);
	}
}

/* ---- the judge: the model as it is written down, gap by gap ---- */

static double exact_cost(const struct setting *s, double threshold_ns)
{
	double cost = 0;

	for (unsigned i = 0; i < WAITS; i++)
		cost += gaps_ns[i] <= threshold_ns
				? ADVISE_TURN_NS + s->price * gaps_ns[i]
				: s->w0_us * US + s->rho * threshold_ns +
					  s->price * (threshold_ns + 12 * US);
	return cost;
}

/* The reference's grid: quarter octaves from 500 ns. */
static double best_exact(const struct setting *s)
{
	double best = exact_cost(s, 0), cost;

	for (double ns = 500; ns <= 8 * MS; ns *= pow(2, .25)) {
		cost = exact_cost(s, floor(ns));
		best = cost < best ? cost : best;
	}
	cost = exact_cost(s, 8 * MS);
	return cost < best ? cost : best;
}

static struct advise_costs costs_of(const struct setting *s)
{
	return (struct advise_costs){
		.price = (uint32_t)(s->price * POLICY_ONE),
		.rho = (uint32_t)(s->rho * POLICY_ONE),
		.w0_ns = (uint64_t)(s->w0_us * US),
		.cw_ns = 12000,
	};
}

START_TEST(the_advised_threshold_costs_at_most_five_per_cent_more_than_the_best)
{
	struct advise_costs costs;
	struct advise_cost told;
	double best, got;
	uint64_t ns;

	meet(_i);
	for (int i = 0; i < NR_SETTINGS; i++) {
		costs = costs_of(&settings[i]);
		ns = advise_best(&costs, &counted.of[0], ADVISE_MAX_NS, &told);
		best = best_exact(&settings[i]);
		got = exact_cost(&settings[i], (double)ns);
		ck_assert_msg(got <= 1.05 * best,
			      "guest %d, setting %d: %.0f ns costs %.3f of the "
			      "best",
			      _i, i, (double)ns, got / best);
		/* and it knows what it costs */
		ck_assert_msg(fabs(told.cost_ns - got) <= .005 * got,
			      "guest %d, setting %d: told %.0f, is %.0f", _i, i,
			      told.cost_ns, got);
		ck_assert_msg(fabs(told.latency_ns +
				   settings[i].price * told.cpu_ns -
				   told.cost_ns) <= .005 * got,
			      "cost is latency + price x CPU");
	}
}
END_TEST

START_TEST(fixed_windows_are_judged_as_they_are)
{
	static const enum advise_way ways[] = { ADVISE_EVENT, ADVISE_FIXED_1MS,
						ADVISE_FIXED_3MS,
						ADVISE_FIXED_6MS,
						ADVISE_FIXED_8MS };
	static const double ms[] = { 0, 1, 3, 6, 8 };
	struct advise_costs costs = costs_of(&settings[3]);
	struct advise a;
	double want;

	meet(_i);
	advise_make(&costs, counted.of, 0, 0, &a);
	ck_assert_double_eq_tol(a.waits, WAITS, .1);
	ck_assert_double_eq_tol(a.requests, WAITS, .1);
	for (unsigned i = 0; i < 5; i++) {
		want = exact_cost(&settings[3], ms[i] * MS);
		ck_assert_msg(fabs(a.ways[ways[i]].cost_ns - want) <=
				      .01 * want,
			      "guest %d, %g ms: %.0f is not %.0f", _i, ms[i],
			      a.ways[ways[i]].cost_ns, want);
	}
}
END_TEST

/* ---- what is recommended ---- */

START_TEST(adaptive_is_recommended_where_spinning_pays_and_event_elsewhere)
{
	static const struct {
		double gap_us;
		const char *want;
	} cases[] = { { 20, "adaptive" }, { 900, "event" } };
	struct advise_costs costs = costs_of(&settings[0]);
	struct advise a;
	char text[512];

	for (unsigned i = 0; i < 2; i++) {
		memset(&counted, 0, sizeof(counted));
		for (unsigned n = 0; n < ADVISE_WAITS_MIN; n++)
			gaps_add(&counted, WAIT_GUEST, POLICY_READ,
				 (uint64_t)(cases[i].gap_us * US));
		advise_make(&costs, counted.of, 50, 0, &a);
		advise_say(&a, text, sizeof(text));
		ck_assert(a.enough);
		ck_assert_ptr_ne(strstr(text, cases[i].want), NULL);
		ck_assert_str_eq(advise_name(a.recommended), cases[i].want);
	}
	ck_assert_double_eq_tol(a.requests, 50, .1);
}
END_TEST

START_TEST(too_few_waits_recommend_nothing)
{
	struct advise_costs costs = costs_of(&settings[0]);
	struct advise a;
	char text[512];

	memset(&counted, 0, sizeof(counted));
	for (unsigned n = 0; n < ADVISE_WAITS_MIN - 1; n++)
		gaps_add(&counted, WAIT_BOTH, POLICY_READ, 1000);
	advise_make(&costs, counted.of, 0, 0, &a);
	advise_say(&a, text, sizeof(text));
	ck_assert(!a.enough);
	ck_assert_ptr_ne(strstr(text, "no recommendation: 99 waits"), NULL);
}
END_TEST

START_TEST(kinds_of_waits_are_told_apart)
{
	struct advise_costs costs = costs_of(&settings[0]);
	struct advise a;

	memset(&counted, 0, sizeof(counted));
	for (unsigned n = 0; n < 1000; n++) {
		gaps_add(&counted, WAIT_GUEST, POLICY_READ, 5000);
		gaps_add(&counted, WAIT_DEVICE, POLICY_READ, 900000);
	}
	advise_make(&costs, counted.of, 0, 0, &a);
	ck_assert_uint_ge(a.kind_threshold_ns[0], 5000);
	ck_assert_uint_le(a.kind_threshold_ns[0], 6000);
	ck_assert_uint_eq(a.kind_threshold_ns[1], 0);
	ck_assert_double_lt(a.ways[ADVISE_ADAPTIVE].cost_ns,
			    a.ways[ADVISE_STATIC].cost_ns);
	/* a price below rho is none that adaptive mode would go by */
	costs = (struct advise_costs){ .price = 100, .rho = 200 };
	advise_make(&costs, counted.of, 0, UINT64_C(20000000), &a);
	ck_assert_uint_eq(a.costs.price, 200);
	ck_assert_uint_eq(a.limit_ns, 20000000);
}
END_TEST

/* ---- the picture ---- */

static char *draw(const char *title)
{
	struct advise_costs costs = costs_of(&settings[3]);
	struct advise a;
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	advise_make(&costs, counted.of, 0, 0, &a);
	ck_assert_int_eq(plot_write(file, title, &a, counted.of), 0);
	fclose(file);
	return text;
}

START_TEST(the_picture_is_whole_whatever_the_waits_are)
{
	char *text;

	if (_i < NR_GUESTS)
		meet(_i);
	else
		memset(&counted, 0, sizeof(counted));
	if (_i == NR_GUESTS + 1)
		gaps_add(&counted, WAIT_DEVICE, POLICY_READ, UINT64_MAX);
	text = draw("<a & b>");
	ck_assert_int_eq(strncmp(text, "<svg ", 5), 0);
	ck_assert_str_eq(text + strlen(text) - 7, "</svg>\n");
	ck_assert_ptr_ne(strstr(text, "&lt;a &amp; b&gt;"), NULL);
	ck_assert_ptr_eq(strstr(text, "nan"), NULL);
	ck_assert_ptr_eq(strstr(text, "inf"), NULL);
	free(text);
}
END_TEST

START_TEST(a_full_disk_is_told)
{
	struct advise_costs costs = costs_of(&settings[3]);
	FILE *full = fopen("/dev/full", "w");
	struct advise a;

	meet(0);
	advise_make(&costs, counted.of, 0, 0, &a);
	ck_assert_int_lt(plot_write(full, "t", &a, counted.of), 0);
	fclose(full);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("advise");
	TCase *tests = tcase_create("advise");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(
		tests,
		the_advised_threshold_costs_at_most_five_per_cent_more_than_the_best,
		0, NR_GUESTS);
	tcase_add_loop_test(tests, fixed_windows_are_judged_as_they_are, 0,
			    NR_GUESTS);
	tcase_add_test(
		tests,
		adaptive_is_recommended_where_spinning_pays_and_event_elsewhere);
	tcase_add_test(tests, too_few_waits_recommend_nothing);
	tcase_add_test(tests, kinds_of_waits_are_told_apart);
	tcase_add_loop_test(tests, the_picture_is_whole_whatever_the_waits_are,
			    0, NR_GUESTS + 2);
	tcase_add_test(tests, a_full_disk_is_told);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
