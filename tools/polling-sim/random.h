/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers that are the same everywhere: what CPython's random.Random
 * gives for a text as its seed, number by number, so that a trace has one name
 * in every program that makes it.  In that order of draws, too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RANDOM_WORDS 624

struct random {
	uint32_t state[RANDOM_WORDS]; /* MT19937 */
	unsigned next;
	double spare; /* the second of a pair of normal numbers */
	bool has_spare;
};

/* @seed has at most 111 bytes. */
void random_seed(struct random *random, const char *seed);

/* From 0 to below 1. */
double random_share(struct random *random);

/* A whole number below @n, not 0. */
uint32_t random_below(struct random *random, uint32_t n);

/* Distributions, by the names and parameters that they have there. */
double random_gauss(struct random *random, double mean, double sigma);
double random_exponential(struct random *random, double rate);
double random_weibull(struct random *random, double scale, double shape);
double random_gamma(struct random *random, double shape, double scale);

/* exp of a normal number with mean 0 and @sigma, times @median. */
double random_lognormal(struct random *random, double median, double sigma);
