/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A memory of gaps finds the threshold that a search of every one would find,
 * also where it did not search.
 */
#include "poll/policy_memory.h"
#include "tests/dice.h"

#include <check.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#define US 1000
#define SLEEP_CPU_NS 12000
#define RUNS 30
#define ONE 65536

static const uint64_t edges[] = {
	0, 1, 511, 512, 639, 640, 1023, 1024, 98303, 98304, 1 << 24, INT32_MAX
};
static const unsigned bins[] = { 0, 0, 0, 1, 1, 2, 4, 5, 30, 31, 61, 63 };

START_TEST(bins_hold_what_their_bounds_say)
{
	unsigned bin;
	uint64_t edge;

	ck_assert_uint_eq(policy_memory_bin(edges[_i]), bins[_i]);
	for (bin = 0; bin < POLICY_MEMORY_BINS; bin++) {
		edge = policy_memory_edge_ns(bin);
		ck_assert_uint_eq(edge + 1, (UINT64_C(4) + bin % 4)
						    << (7 + bin / 4));
		ck_assert_uint_eq(policy_memory_bin(edge), bin);
		ck_assert_uint_eq(policy_memory_bin(edge + 1),
				  bin < 63 ? bin + 1 : 63);
	}
}
END_TEST

static double length(unsigned bin)
{
	return bin ? (double)((policy_memory_edge_ns(bin - 1) +
			       policy_memory_edge_ns(bin)) /
			      2)
		   : 255;
}

/* What spinning to the end of @bin costs; -1: what never spinning does. */
static double cost_of(const struct policy_memory *m,
		      const struct policy_figures *f, int end, double far)
{
	double cost = 0, failed = 0;
	int i;

	if (end < 0)
		return (double)f->sleep * m->total * 15 / 16;
	failed = (double)f->fail * (double)policy_memory_edge_ns((unsigned)end);
	for (i = 0; i < POLICY_MEMORY_BINS; i++)
		cost += m->weight[i] *
			(i <= end ? (double)f->beta * length((unsigned)i)
				  : (double)f->sleep + failed);
	return cost + far * failed;
}

/* The best one, and then the longest near it that costs hardly more. */
static uint64_t threshold_of(const struct policy_memory *m,
			     const struct policy_figures *f, double far)
{
	double least = cost_of(m, f, -1, far), cost;
	int i, best = -1, longest;

	for (i = 0; i < POLICY_MEMORY_BINS && f->reach >> i & 1; i++) {
		cost = cost_of(m, f, i, far);
		if (cost < least) {
			least = cost;
			best = i;
		}
	}
	if (best < 0)
		return 0;
	longest = best;
	for (i = best + 1; i <= best + 4 && i < POLICY_MEMORY_BINS; i++)
		if (f->reach >> i & 1 &&
		    cost_of(m, f, i, far) <= least + least / 16)
			longest = i;
	return policy_memory_edge_ns((unsigned)longest);
}

static void any_figures(struct policy_figures *f, struct dice *dice)
{
	uint64_t version = f->version + 1;

	f->beta = 1 + (dice_any(dice) >> dice_below(dice, 60)) % (16 * ONE);
	f->fail = f->beta + dice_below(dice, 3) * dice_below(dice, ONE);
	f->sleep = (dice_below(dice, 90) + 1) * US * ONE;
	f->reach = UINT64_MAX >> (dice_below(dice, 2) * dice_below(dice, 64));
	f->version = version;
}

/* Two that cost the same but for the rounding of doubles are both right. */
static bool same(const struct policy_memory *m, const struct policy_figures *f,
		 uint64_t want, double far)
{
	double a, b;

	if (m->threshold_ns == want)
		return true;
	a = cost_of(m, f, (int)policy_memory_bin(m->threshold_ns), far);
	b = cost_of(m, f, (int)policy_memory_bin(want), far);
	return m->threshold_ns && want && fabs(a - b) < 1e-9 * a;
}

static void search(uint64_t seed)
{
	struct dice dice = { seed };
	struct policy_memory m = { 0 };
	struct policy_figures f = { 0 };
	unsigned span = (unsigned[]){ 16, 64, 256 }[seed % 3];
	uint64_t far = seed % 2 * POLICY_MEMORY_GAP, want;
	double middle = 0, spread = 0;
	int i;

	for (i = 0; i < 1500; i++) {
		if (i % 300 == 0) {
			any_figures(&f, &dice);
			middle = exp(dice_share(&dice) * 10) * US;
			spread = dice_share(&dice) * 2;
		}
		policy_memory_add(
			&m,
			policy_memory_bin(dice_about(&dice, middle, spread)),
			span);
		if (dice_below(&dice, 10) == 0)
			continue; /* two gaps between two searches */
		policy_memory_solve(&m, &f, far);
		want = threshold_of(&m, &f, (double)far);
		if (!same(&m, &f, want, (double)far) || m.total > 1 << 17)
			ck_abort_msg("seed %" PRIu64
				     " gap %d: %u, not %" PRIu64,
				     seed, i, m.threshold_ns, want);
	}
}

START_TEST(finds_what_an_exhaustive_search_finds)
{
	dice_each(search, RUNS);
}
END_TEST

/* CPU that the threshold costs over the gaps, in weighted ns. */
static double cpu_of(const struct policy_memory *m)
{
	double cpu = 0;
	unsigned i;

	for (i = 0; i < POLICY_MEMORY_BINS; i++)
		cpu += m->weight[i] *
		       (policy_memory_edge_ns(i) <= m->threshold_ns
				? length(i)
				: (double)m->threshold_ns + SLEEP_CPU_NS);
	return cpu;
}

/* But for the rounding of bins, and of thresholds to the longer side. */
static void rising_price(uint64_t seed)
{
	static const double middles_us[] = { 8, 40, 300, 5000 };
	static const uint64_t rising[] = { ONE / 50, ONE / 20, ONE / 5,
					   ONE / 2,  ONE,      4 * ONE };
	struct dice dice = { seed };
	struct policy_memory m = { 0 };
	struct policy_figures f = { .reach = UINT64_MAX };
	double cpu, last = INFINITY;
	uint64_t gap;
	unsigned i, n = 1 + (unsigned)dice_below(&dice, 200);

	for (i = 0; i < n; i++) {
		gap = dice_about(&dice, middles_us[dice_below(&dice, 4)] * US,
				 .5);
		policy_memory_add(&m, policy_memory_bin(gap), 256);
	}
	for (i = 0; i < sizeof(rising) / sizeof(*rising); i++) {
		f.beta = f.fail = rising[i];
		f.sleep = (uint64_t)35 * US * ONE + rising[i] * SLEEP_CPU_NS;
		f.version++;
		policy_memory_solve(&m, &f, 0);
		cpu = cpu_of(&m);
		if (cpu > last * 1.35)
			ck_abort_msg("seed %" PRIu64 ": %g after %g", seed, cpu,
				     last);
		last = cpu < last ? cpu : last;
	}
}

START_TEST(dearer_cpu_spins_less)
{
	dice_each(rising_price, 2000);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("policy_memory");
	TCase *tcase = tcase_create("policy_memory");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tcase, bins_hold_what_their_bounds_say, 0,
			    sizeof(bins) / sizeof(*bins));
	tcase_add_test(tcase, finds_what_an_exhaustive_search_finds);
	tcase_add_test(tcase, dearer_cpu_spins_less);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
