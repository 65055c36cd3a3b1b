/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What begin + end of the policy cost, over gaps of several kinds.  For people:
 * prints ns per wait, the least and the median of the rounds, and judges
 * nothing.
 *
 *	make build/tests/bench/policy_bench && build/tests/bench/policy_bench
 */
#include "poll/clock.h"
#include "poll/device_wait.h"
#include "tests/dice.h"

#include <stdio.h>
#include <stdlib.h>

#define US 1000
#define WAITS 4096
#define ROUNDS 101

static const struct {
	const char *name;
	double middle_us, spread;
} kinds[] = {
	{ "steady 15 us", 15, .1 },    { "think time 100 us", 100, .35 },
	{ "broad, 60 us", 60, 1.5 },   { "every bin", 100, 4 },
	{ "idle, 20 ms", 20000, .02 },
};

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double ns_per_wait(struct policy *p, const uint64_t *gaps)
{
	uint64_t start = clock_ns(), spin;
	unsigned i;

	for (i = 0; i < WAITS; i++) {
		spin = policy_begin(p, (enum policy_op)(i % 3));
		if (gaps[i] <= spin)
			policy_end(p, gaps[i], gaps[i], false, -1);
		else
			policy_end(p, gaps[i] + 35 * US, spin, true, 1000);
	}
	return (double)(clock_ns() - start) / WAITS;
}

static double ns_per_device_wait(struct device_wait *d, const uint64_t *times)
{
	uint64_t start = clock_ns();
	unsigned i;

	for (i = 0; i < WAITS; i++) {
		device_wait_begin(d, (enum policy_op)(i % 3));
		device_wait_end(d, times[i]);
	}
	return (double)(clock_ns() - start) / WAITS;
}

int main(void)
{
	static double ns[2][ROUNDS];
	static uint64_t gaps[WAITS];
	static struct policy p;
	static struct device_wait d;
	struct dice dice = { 1 };
	unsigned i, k;

	printf("state: policy %zu bytes, device wait %zu bytes\n", sizeof(p),
	       sizeof(d));
	printf("%-20s %19s %19s\n", "ns, least/median", "policy",
	       "device wait");
	for (k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		for (i = 0; i < WAITS; i++)
			gaps[i] = dice_about(&dice, kinds[k].middle_us * US,
					     kinds[k].spread);
		policy_init(&p, 8000 * US, POLICY_ONE / 5, 35 * US, 12 * US);
		device_wait_init(&d, 8000 * US, POLICY_ONE / 5, 35 * US,
				 12 * US);
		for (i = 0; i < ROUNDS; i++) {
			ns[0][i] = ns_per_wait(&p, gaps);
			ns[1][i] = ns_per_device_wait(&d, gaps);
		}
		qsort(ns[0], ROUNDS, sizeof(double), by_size);
		qsort(ns[1], ROUNDS, sizeof(double), by_size);
		printf("%-20s %9.0f/%9.0f %9.0f/%9.0f\n", kinds[k].name,
		       ns[0][0], ns[0][ROUNDS / 2], ns[1][0],
		       ns[1][ROUNDS / 2]);
	}
	return 0;
}
