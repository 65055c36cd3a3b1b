/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What spinning costs and who may: a tapdisk's share of the cap, and what one
 * step of the price makes of one reading of the host.
 */
#include "poll/clock.h"
#include "poll/cpu_price.h"
#include "tests/dice.h"
#include "tests/rig.h"

#define MS UINT64_C(1000000)

#define COUNT(table) ((int)(sizeof(table) / sizeof(*(table))))

/* A peer that spins as much as it may. */
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

int main(void)
{
	Suite *suite = suite_create("cpu_price");
	TCase *tcase = tcase_create("cpu_price");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, shares_what_others_leave, 0, COUNT(levels));
	tcase_add_test(tcase, no_claim_costs_more_than_a_part);
	tcase_add_loop_test(
		tcase, pressure_raises_the_price_at_once_and_lets_go_slowly, 0,
		COUNT(strains));
	tcase_add_loop_test(tcase, threshold_forbids_only_what_is_known, 0,
			    COUNT(gates));
	tcase_add_test(tcase, survives_any_input);
	suite_add_tcase(suite, tcase);
	return rig_run(suite);
}
