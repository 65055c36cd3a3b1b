/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policy against its golden vectors, decision by decision, and against what
 * has to hold for any guest.
 *
 * A vector (tests/data/policy) is what a reference implementation was asked and
 * what it answered.  Lines, times in ns:
 *	init BETA_Q16 W0 CW MAX
 *	price BETA_Q16
 *	limit MAX
 *	wait OP SPIN OBSERVED SPUN MISSED DELAY
 */
#include "poll/granularity.h"
#include "poll/policy.h"
#include "tests/dice.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US 1000
#define MS 1000000
#define SLEEP_CPU_NS (12 * US)
#define MAX_NS (8 * MS)
#define RUNS 60

static const char *const vectors[] = {
	"start-and-think-15us",
	"burst-then-idle",
	"sqlite-contended",
	"regimes",
	"pareto",
	"to-idle",
	"price-and-limit",
	"odd-gaps",
	"never-allowed",
};

#define NR_VECTORS (sizeof(vectors) / sizeof(*vectors))

/* Replay one line.  True: it is a wait, and what it answered in @got. */
static bool replay(struct policy *p, const char *word, const int64_t *v,
		   int64_t *got)
{
	if (!strcmp(word, "init")) {
		policy_init(p, (uint64_t)v[3], (uint32_t)v[0], (uint64_t)v[1],
			    (uint64_t)v[2]);
	} else if (!strcmp(word, "price")) {
		policy_price(p, (uint32_t)v[0]);
	} else if (!strcmp(word, "limit")) {
		policy_limit(p, (uint64_t)v[0]);
	} else {
		ck_assert_str_eq(word, "wait");
		*got = (int64_t)policy_begin(p, (enum policy_op)v[0]);
		policy_end(p, (uint64_t)v[2], (uint64_t)v[3], v[4] != 0, v[5]);
		return true;
	}
	return false;
}

START_TEST(reproduces_every_golden_decision)
{
	static struct policy p;
	char path[128], line[160], word[16];
	unsigned number = 0, decisions = 0;
	int64_t v[6], got;
	FILE *file;

	snprintf(path, sizeof(path), "tests/data/policy/%s.txt", vectors[_i]);
	file = fopen(path, "r");
	ck_assert_msg(file, "%s", path);
	while (fgets(line, sizeof(line), file)) {
		number++;
		line[strcspn(line, "#")] = '\0';
		if (sscanf(line,
			   "%15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
			   " %" SCNd64 " %" SCNd64,
			   word, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]) < 1)
			continue;
		if (!replay(&p, word, v, &got))
			continue;
		decisions++;
		ck_assert_msg(got == v[1], "%s:%u: %" PRId64 ", not %" PRId64,
			      path, number, got, v[1]);
	}
	fclose(file);
	ck_assert_uint_ge(decisions, 40);
}
END_TEST

static const uint32_t prices[] = { POLICY_ONE / 50, POLICY_ONE / 20,
				   POLICY_ONE / 5, POLICY_ONE,
				   POLICY_BETA_MAX };
static const uint64_t limits[] = {
	0, 1, 600, 50 * US, MAX_NS, UINT64_C(1) << 40
};
static const uint64_t wakes[] = { 2 * US, 10 * US, 35 * US, 85 * US };

static void any_policy(struct policy *p, struct dice *dice)
{
	policy_init(p, limits[dice_below(dice, 6)], prices[dice_below(dice, 5)],
		    wakes[dice_below(dice, 4)], SLEEP_CPU_NS);
}

/* What the arithmetic relies on. */
static bool memory_is_sound(const struct policy_memory *m)
{
	uint64_t total = 0, used = 0;
	unsigned i;

	for (i = 0; i < POLICY_MEMORY_BINS; i++) {
		total += m->weight[i];
		if (m->weight[i])
			used |= UINT64_C(1) << i;
	}
	return total == m->total && used == m->used && total <= 1 << 17;
}

static bool state_is_sound(const struct policy *p)
{
	bool sound = memory_is_sound(&p->slow) && memory_is_sound(&p->fast) &&
		     policy_rho(p) <= POLICY_RHO_MAX &&
		     llabs(p->debt) < INT64_C(1) << 40;
	unsigned i;

	for (i = 0; i < sizeof(p->context) / sizeof(*p->context); i++)
		sound = sound && memory_is_sound(&p->context[i]);
	for (i = 0; i < NR_POLICY_EXPERTS; i++)
		sound = sound && p->average[i] >= -1 &&
			p->average[i] < INT64_C(1) << 40;
	return sound;
}

static void stays_below_the_maximum(uint64_t seed)
{
	struct dice dice = { seed };
	static struct policy p;
	uint64_t spin, gap;
	int64_t delay;
	int i;

	any_policy(&p, &dice);
	for (i = 0; i < 400; i++) {
		if (!dice_below(&dice, 50))
			policy_limit(&p, limits[dice_below(&dice, 6)]);
		if (!dice_below(&dice, 50))
			policy_price(&p, (uint32_t)dice_any(&dice));
		if (!dice_below(&dice, 100))
			policy_costs(&p,
				     dice_any(&dice) >> dice_below(&dice, 64),
				     dice_any(&dice) >> dice_below(&dice, 64));
		spin = policy_begin(&p, (enum policy_op)dice_below(&dice, 3));
		ck_assert_uint_le(spin, p.max_ns);
		gap = (uint64_t)exp2(dice_share(&dice) * 63);
		delay = (int64_t[]){
			-1,	   0,	     (int64_t)gap, INT64_C(1) << 40,
			INT64_MAX, INT64_MIN
		}[dice_below(&dice, 6)];
		policy_end(&p, gap, gap < spin ? gap : spin, gap > spin, delay);
		ck_assert_msg(state_is_sound(&p), "seed %" PRIu64, seed);
	}
}

START_TEST(never_spins_longer_than_the_maximum)
{
	dice_each(stays_below_the_maximum, RUNS);
}
END_TEST

/* The duration is aligned before it becomes the maximum; it is the bound. */
START_TEST(an_aligned_duration_bounds_it_and_no_duration_forbids_it)
{
	static const uint32_t durations_us[] = { 0, 1, 1000, 4001, 8000 };
	struct dice dice = { 7 };
	static struct policy p;
	uint64_t max_ns =
		(uint64_t)granularity_align(durations_us[_i], 4000) * US;
	uint64_t spin, most = 0;
	int i;

	policy_init(&p, max_ns, POLICY_ONE / 50, 85 * US, SLEEP_CPU_NS);
	for (i = 0; i < 500; i++) {
		spin = policy_begin(&p, POLICY_READ);
		if (spin > most)
			most = spin;
		policy_end(&p, dice_about(&dice, 2.5 * MS, .3), 0, false, -1);
	}
	ck_assert_uint_le(most, max_ns);
	ck_assert(most > 0 || !max_ns);
}
END_TEST

static void stray_calls(uint64_t seed)
{
	struct dice dice = { seed };
	static struct policy p, before;

	any_policy(&p, &dice);
	before = p;
	policy_end(&p, 5, 5, false, -1);
	ck_assert(!memcmp(&before, &p, sizeof(p)));
	policy_begin(&p, POLICY_READ);
	policy_begin(&p, POLICY_WRITE);
	policy_end(&p, 5, 5, false, -1);
	ck_assert_uint_eq(p.slow.gaps, 1);
	before = p;
	policy_end(&p, 9 * MS, 0, true, -1);
	ck_assert(!memcmp(&before, &p, sizeof(p)));
}

START_TEST(stray_calls_are_harmless)
{
	dice_each(stray_calls, RUNS);
}
END_TEST

static void two_policies(uint64_t seed)
{
	struct dice dice = { seed };
	static struct policy p, q;
	enum policy_op op;
	uint64_t gap, spin;
	int i;

	any_policy(&p, &dice);
	memset(&q, 0xa5, sizeof(q));
	policy_init(&q, p.max_ns, (uint32_t)p.beta, p.w0_ns, p.cw_ns);
	for (i = 0; i < 200; i++) {
		op = (enum policy_op)dice_below(&dice, 3);
		gap = (uint64_t)(-5e4 * log(1 - dice_share(&dice)));
		spin = policy_begin(&p, op);
		ck_assert_uint_eq(policy_begin(&q, op), spin);
		ck_assert_str_eq(policy_decider(&p), policy_decider(&q));
		spin = gap < spin ? gap : spin;
		policy_end(&p, gap, spin, gap > spin, -1);
		policy_end(&q, gap, spin, gap > spin, -1);
	}
}

START_TEST(the_same_inputs_give_the_same_decisions)
{
	dice_each(two_policies, RUNS);
}
END_TEST

/* A small world: what a wait with a true w0 and rho looks like from inside. */
struct world {
	double w0_ns, beta, rho;
	struct dice dice;
};

static void any_world(struct world *w, uint64_t seed)
{
	w->dice.state = seed;
	w->w0_ns = dice_below(&w->dice, 2) ? 10 * US : 35 * US;
	w->beta = (double[]){ 1, .2, .05 }[dice_below(&w->dice, 3)];
	w->rho = (double[]){ 0, .3, 1 }[dice_below(&w->dice, 3)];
}

static void world_policy(const struct world *w, struct policy *p)
{
	policy_init(p, MAX_NS, (uint32_t)(w->beta * POLICY_ONE),
		    (uint64_t)w->w0_ns, SLEEP_CPU_NS);
}

/* Returns how long it was ready to spin. */
static uint64_t world_wait(struct world *w, struct policy *p, enum policy_op op,
			   uint64_t gap_ns)
{
	uint64_t spin = policy_begin(p, op), delay, wake;

	if (gap_ns <= spin) {
		policy_end(p, gap_ns, gap_ns, false, -1);
		return spin;
	}
	delay = (uint64_t)(w->rho *
			   (double)dice_about(&w->dice, (double)spin, .15));
	wake = dice_about(&w->dice, w->w0_ns, .15) + delay;
	policy_end(p, gap_ns + wake, spin, true,
		   (int64_t)(delay + dice_below(&w->dice, 3 * US)));
	return spin;
}

/*
 * Spins when that costs less than 0.8 of a sleep, sleeps when more than 1.25.
 * Where a failed spin costs more than it can save, the first ones are held
 * against spinning for a little longer.
 */
static void equal_gaps(uint64_t seed)
{
	static const double ofs[] = { .02, .1, .5, .79, 1.26, 2, 10, 100 };
	struct world w;
	static struct policy p;
	double even_ns;
	uint64_t gap, spin;
	int i, n;

	any_world(&w, seed / 8);
	n = w.rho <= w.beta ? 64 : 96;
	even_ns = (w.w0_ns + w.beta * SLEEP_CPU_NS) / w.beta;
	gap = (uint64_t)(even_ns * ofs[seed % 8]);
	if (gap > MAX_NS || gap < US)
		return;
	world_policy(&w, &p);
	for (i = 0; i < n; i++)
		world_wait(&w, &p, POLICY_READ, gap);
	spin = policy_begin(&p, POLICY_READ);
	ck_assert_msg((double)gap < even_ns ? spin >= gap : !spin,
		      "w0 %g beta %g rho %g gap %" PRIu64 ": %" PRIu64, w.w0_ns,
		      w.beta, w.rho, gap, spin);
}

START_TEST(settles_on_equal_gaps)
{
	dice_each(equal_gaps, 8 * RUNS);
}
END_TEST

static void goes_idle(uint64_t seed)
{
	struct world w;
	static struct policy p;
	uint64_t spin, total = 0;
	double middles[3], spread;
	int i;

	any_world(&w, seed);
	w.w0_ns = 35 * US;
	spread = dice_share(&w.dice) * 1.5;
	for (i = 0; i < 3; i++)
		middles[i] = exp(dice_share(&w.dice) * 9) * US;
	world_policy(&w, &p);
	for (i = 0; i < 300; i++)
		world_wait(&w, &p, (enum policy_op)dice_below(&w.dice, 3),
			   dice_about(&w.dice, middles[i / 30 % 3], spread));
	for (i = 0; i < 200; i++) {
		spin = world_wait(&w, &p, POLICY_READ, UINT64_C(1000) * MS);
		total += spin;
		ck_assert_msg(i < 100 || !spin, "seed %" PRIu64 " wait %d",
			      seed, i);
	}
	ck_assert_uint_le(total, UINT64_C(40) * MAX_NS);
}

START_TEST(is_soon_asleep_when_a_guest_goes_idle)
{
	dice_each(goes_idle, RUNS);
}
END_TEST

START_TEST(a_guard_bounds_what_an_adversary_can_do)
{
	static const double rhos[] = { 0, 0, 0, .3 };
	static const double betas[] = { 1, .2, .05, 1 };
	struct world w = { 35 * US, betas[_i], rhos[_i], { 1 } };
	static struct policy p;
	double cost = 0, best = 0, spin;
	double sleep = w.w0_ns + w.beta * SLEEP_CPU_NS;
	int i;

	world_policy(&w, &p);
	for (i = 0; i < 3000; i++) {
		/* it knows: the request comes 1 us after the spin ended */
		spin = (double)world_wait(&w, &p, POLICY_READ,
					  policy_begin(&p, POLICY_READ) + US);
		cost += sleep + (w.beta + w.rho) * spin;
		best += fmin(w.beta * (spin + US), sleep);
	}
	ck_assert_double_le(cost / best, rhos[_i] > 0 ? 3.5 : 3.0);
}
END_TEST

START_TEST(learns_what_failed_spins_cost)
{
	struct world w = { 35 * US, .05, (double[]){ 0, .3, 1 }[_i], { 3 } };
	static struct policy p;
	int i;

	world_policy(&w, &p);
	ck_assert_uint_eq(policy_rho(&p), POLICY_ONE);
	for (i = 0; i < 400; i++)
		world_wait(&w, &p, POLICY_READ,
			   i % 4 ? 100 * US : (uint64_t)50 * MS);
	ck_assert_double_ge(policy_rho(&p), (w.rho * .8 - .02) * POLICY_ONE);
	ck_assert_double_le(policy_rho(&p), (w.rho * 1.2 + .1) * POLICY_ONE);
}
END_TEST

START_TEST(new_costs_act_at_the_next_wait)
{
	static struct policy p;
	int i;

	/* 40 us: longer than a cheap sleep is worth, not than a dear one */
	policy_init(&p, MAX_NS, POLICY_ONE, 5 * US, SLEEP_CPU_NS);
	for (i = 0; i < 200; i++) {
		policy_begin(&p, POLICY_READ);
		policy_end(&p, 40 * US, 0, false, -1);
	}
	ck_assert_uint_eq(policy_begin(&p, POLICY_READ), 0);
	ck_assert_uint_eq(policy_sleep_ns(&p), 17 * US);
	policy_costs(&p, 150 * US, SLEEP_CPU_NS);
	ck_assert_uint_eq(policy_sleep_ns(&p), 162 * US);
	for (i = 0; i < 64; i++) {
		policy_begin(&p, POLICY_READ);
		policy_end(&p, 40 * US, 0, false, -1);
	}
	ck_assert_uint_ge(policy_begin(&p, POLICY_READ), 40 * US);
}
END_TEST

static void add_tests(TCase *tcase)
{
	tcase_add_loop_test(tcase, reproduces_every_golden_decision, 0,
			    NR_VECTORS);
	tcase_add_test(tcase, never_spins_longer_than_the_maximum);
	tcase_add_loop_test(
		tcase, an_aligned_duration_bounds_it_and_no_duration_forbids_it,
		0, 5);
	tcase_add_test(tcase, stray_calls_are_harmless);
	tcase_add_test(tcase, the_same_inputs_give_the_same_decisions);
	tcase_add_test(tcase, settles_on_equal_gaps);
	tcase_add_test(tcase, is_soon_asleep_when_a_guest_goes_idle);
	tcase_add_loop_test(tcase, a_guard_bounds_what_an_adversary_can_do, 0,
			    4);
	tcase_add_loop_test(tcase, learns_what_failed_spins_cost, 0, 3);
	tcase_add_test(tcase, new_costs_act_at_the_next_wait);
}

int main(void)
{
	Suite *suite = suite_create("policy");
	TCase *tcase = tcase_create("policy");
	SRunner *runner;
	int failed;

	add_tests(tcase);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
