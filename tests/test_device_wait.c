/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device wait against its golden vectors, and against what has to hold for
 * any device.
 *
 * A vector (tests/data/policy/device-*.txt), times in ns:
 *	init BETA_Q16 W0 CW MAX
 *	device OP NAP SPIN TIME		what begin(OP) has to answer, then end
 */
#include "poll/device_wait.h"
#include "tests/dice.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US 1000
#define MS 1000000
#define SLEEP_CPU_NS (12 * US)
#define MAX_NS (8 * MS)
#define RUNS 60

static const char *const vectors[] = { "nap", "dear", "odd" };

START_TEST(reproduces_every_golden_decision)
{
	static struct device_wait d;
	struct device_wait_plan plan;
	char path[128], line[160], word[16];
	unsigned number = 0, decisions = 0;
	uint64_t v[4];
	FILE *file;

	snprintf(path, sizeof(path), "tests/data/policy/device-%s.txt",
		 vectors[_i]);
	file = fopen(path, "r");
	ck_assert_msg(file, "%s", path);
	while (fgets(line, sizeof(line), file)) {
		number++;
		line[strcspn(line, "#")] = '\0';
		if (sscanf(line,
			   "%15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
			   word, &v[0], &v[1], &v[2], &v[3]) < 5)
			continue;
		if (!strcmp(word, "init")) {
			device_wait_init(&d, v[3], (uint32_t)v[0], v[1], v[2]);
			continue;
		}
		ck_assert_str_eq(word, "device");
		plan = device_wait_begin(&d, (enum policy_op)v[0]);
		ck_assert_msg(plan.nap_ns == v[1] && plan.spin_ns == v[2],
			      "%s:%u: %" PRIu64 " %" PRIu64, path, number,
			      plan.nap_ns, plan.spin_ns);
		device_wait_end(&d, v[3]);
		decisions++;
	}
	fclose(file);
	ck_assert_uint_ge(decisions, 200);
}
END_TEST

static void stays_below_the_maximum(uint64_t seed)
{
	struct dice dice = { seed };
	static struct device_wait d;
	struct device_wait_plan plan;
	uint64_t time;
	int i;

	device_wait_init(&d, dice_any(&dice) >> dice_below(&dice, 64),
			 (uint32_t)dice_any(&dice) >> dice_below(&dice, 32),
			 dice_below(&dice, 100) * US, SLEEP_CPU_NS);
	for (i = 0; i < 400; i++) {
		plan = device_wait_begin(&d,
					 (enum policy_op)dice_below(&dice, 3));
		ck_assert_uint_le(plan.spin_ns, d.policy.max_ns);
		ck_assert_uint_le(plan.nap_ns, POLICY_TIME_MAX_NS);
		time = seed % 2 ? dice_about(&dice, 300 * US, .1)
				: (uint64_t)exp2(dice_share(&dice) * 63);
		device_wait_end(&d, time);
	}
}

START_TEST(never_spins_beyond_the_maximum)
{
	dice_each(stays_below_the_maximum, RUNS);
}
END_TEST

START_TEST(naps_for_a_slow_steady_device_and_spins_for_a_fast_one)
{
	struct dice dice = { 1 };
	static struct device_wait d;
	struct device_wait_plan plan = { 0 };
	int i;

	device_wait_init(&d, MAX_NS, POLICY_ONE / 5, 35 * US, SLEEP_CPU_NS);
	for (i = 0; i < 200; i++) {
		plan = device_wait_begin(&d, POLICY_READ);
		device_wait_end(&d, dice_about(&dice, 1000 * US, .03));
	}
	ck_assert_uint_ge(plan.nap_ns, 800 * US);
	ck_assert_uint_le(plan.nap_ns, 965 * US);
	for (i = 0; i < 200; i++) {
		plan = device_wait_begin(&d, POLICY_READ);
		device_wait_end(&d, dice_about(&dice, 20 * US, .03));
	}
	ck_assert_uint_eq(plan.nap_ns, 0);
	ck_assert_uint_ge(plan.spin_ns, 20 * US);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("device_wait");
	TCase *tcase = tcase_create("device_wait");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tcase, reproduces_every_golden_decision, 0, 3);
	tcase_add_test(tcase, never_spins_beyond_the_maximum);
	tcase_add_test(tcase,
		       naps_for_a_slow_steady_device_and_spins_for_a_fast_one);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
