/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MT19937 and the distributions on top, each in the arithmetic of its model:
 * another order of the same operations would round differently.
 */
#include "tools/polling-sim/random.h"
#include "tools/polling-sim/sha512.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define MIDDLE 397
#define UPPER UINT32_C(0x80000000)
#define LOWER UINT32_C(0x7fffffff)
#define TWIST UINT32_C(0x9908b0df)
#define KEY_WORDS_MAX ((SHA512_TEXT_MAX + SHA512_BYTES + 3) / 4)

static uint32_t stirred(const uint32_t *state, unsigned i)
{
	return state[i - 1] ^ state[i - 1] >> 30;
}

/* The generator's own way to be seeded with an array of words. */
static void seed_words(struct random *r, const uint32_t *key, unsigned n)
{
	uint32_t *mt = r->state;
	unsigned i, j, k;

	mt[0] = 19650218;
	for (i = 1; i < RANDOM_WORDS; i++)
		mt[i] = UINT32_C(1812433253) * stirred(mt, i) + i;
	i = 1;
	j = 0;
	for (k = n > RANDOM_WORDS ? n : RANDOM_WORDS; k; k--) {
		mt[i] = (mt[i] ^ stirred(mt, i) * UINT32_C(1664525)) + key[j] +
			j;
		if (++i == RANDOM_WORDS) {
			mt[0] = mt[RANDOM_WORDS - 1];
			i = 1;
		}
		if (++j == n)
			j = 0;
	}
	for (k = RANDOM_WORDS - 1; k; k--) {
		mt[i] = (mt[i] ^ stirred(mt, i) * UINT32_C(1566083941)) - i;
		if (++i == RANDOM_WORDS) {
			mt[0] = mt[RANDOM_WORDS - 1];
			i = 1;
		}
	}
	mt[0] = UPPER;
	r->next = RANDOM_WORDS;
	r->has_spare = false;
}

/* The text and its digest are one big-endian number; its words, least first. */
void random_seed(struct random *r, const char *seed)
{
	uint8_t bytes[SHA512_TEXT_MAX + SHA512_BYTES];
	uint32_t key[KEY_WORDS_MAX] = { 0 };
	size_t len = strlen(seed), i;

	assert(len <= SHA512_TEXT_MAX);
	memcpy(bytes, seed, len);
	sha512_short(seed, len, bytes + len);
	len += SHA512_BYTES;
	for (i = 0; i < len; i++)
		key[i / 4] |= (uint32_t)bytes[len - 1 - i] << (i % 4 * 8);
	seed_words(r, key, (unsigned)((len + 3) / 4));
}

static uint32_t twisted(const uint32_t *mt, unsigned i)
{
	uint32_t y = (mt[i] & UPPER) | (mt[(i + 1) % RANDOM_WORDS] & LOWER);

	return mt[(i + MIDDLE) % RANDOM_WORDS] ^ y >> 1 ^ (y & 1 ? TWIST : 0);
}

static uint32_t word(struct random *r)
{
	unsigned i;
	uint32_t y;

	if (r->next == RANDOM_WORDS) {
		for (i = 0; i < RANDOM_WORDS; i++)
			r->state[i] = twisted(r->state, i);
		r->next = 0;
	}
	y = r->state[r->next++];
	y ^= y >> 11;
	y ^= y << 7 & UINT32_C(0x9d2c5680);
	y ^= y << 15 & UINT32_C(0xefc60000);
	return y ^ y >> 18;
}

double random_share(struct random *r)
{
	uint32_t high = word(r) >> 5, low = word(r) >> 6;

	return (high * 67108864.0 + low) / 9007199254740992.0;
}

uint32_t random_below(struct random *r, uint32_t n)
{
	unsigned bits = 32 - (unsigned)__builtin_clz(n);
	uint32_t x;

	do
		x = word(r) >> (32 - bits);
	while (x >= n);
	return x;
}

double random_gauss(struct random *r, double mean, double sigma)
{
	double z = r->spare, angle, radius;

	if (!r->has_spare) {
		angle = random_share(r) * (2.0 * M_PI);
		radius = sqrt(-2.0 * log(1.0 - random_share(r)));
		z = cos(angle) * radius;
		r->spare = sin(angle) * radius;
	}
	r->has_spare = !r->has_spare;
	return mean + z * sigma;
}

double random_exponential(struct random *r, double rate)
{
	return -log(1.0 - random_share(r)) / rate;
}

double random_weibull(struct random *r, double scale, double shape)
{
	return scale * pow(-log(1.0 - random_share(r)), 1.0 / shape);
}

/* For shapes below 1: algorithm GS of Ahrens and Dieter. */
double random_gamma(struct random *r, double shape, double scale)
{
	double b = (M_E + shape) / M_E;
	double p, x, u;

	assert(shape > 0 && shape < 1);
	for (;;) {
		p = b * random_share(r);
		x = p <= 1.0 ? pow(p, 1.0 / shape) : -log((b - p) / shape);
		u = random_share(r);
		if (p > 1.0 ? u <= pow(x, shape - 1.0) : u <= exp(-x))
			return x * scale;
	}
}

double random_lognormal(struct random *r, double median, double sigma)
{
	return median * exp(random_gauss(r, 0, sigma));
}
