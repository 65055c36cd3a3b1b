/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers that a failed run can be repeated with: a test names its seed.
 * Header only, for tests only.
 */
#pragma once

#include <math.h>
#include <stdint.h>

struct dice {
	uint64_t state;
};

static inline uint64_t dice_any(struct dice *dice)
{
	uint64_t z = dice->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline uint64_t dice_below(struct dice *dice, uint64_t n)
{
	return dice_any(dice) % n;
}

static inline double dice_share(struct dice *dice)
{
	return (double)(dice_any(dice) >> 11) * 0x1p-53;
}

/* About lognormal: @middle times e to the @spread. */
static inline uint64_t dice_about(struct dice *dice, double middle,
				  double spread)
{
	double sum = -6;
	int i;

	for (i = 0; i < 12; i++)
		sum += dice_share(dice);
	return (uint64_t)(middle * exp(spread * sum));
}

/* A property that has to hold whatever the dice say. */
static inline void dice_each(void (*holds)(uint64_t seed), uint64_t seeds)
{
	uint64_t seed;

	for (seed = 0; seed < seeds; seed++)
		holds(seed);
}
