/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers for loads: splitmix64, seeded, so that a run can be repeated.
 */
#pragma once

#include <stdint.h>

static inline uint64_t random_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static inline uint64_t random_next(uint64_t *state)
{
	*state += UINT64_C(0x9e3779b97f4a7c15);
	return random_mix(*state);
}

/* 0 to @n - 1; @n is far below 2^64, so the bias does not matter. */
static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
	return random_next(state) % n;
}

/* Above 0, at most 1. */
static inline double random_unit(uint64_t *state)
{
	return ((double)(random_next(state) >> 11) + 1) / 9007199254740992.0;
}
