/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log-linear histogram; see histogram.h.
 *
 * Values below 64 have a bucket each; above, a bucket is an octave (the place
 * of the highest bit) and the six bits below that one.
 */
#include "tests/bench/histogram.h"

static unsigned bucket_of(uint64_t value)
{
	unsigned shift;

	if (value < 1u << HISTOGRAM_BITS)
		return (unsigned)value;
	shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_BITS;
	return ((shift + 1) << HISTOGRAM_BITS) +
	       (unsigned)((value >> shift) - (1u << HISTOGRAM_BITS));
}

static uint64_t middle_of(unsigned bucket)
{
	unsigned shift = bucket >> HISTOGRAM_BITS;
	uint64_t first = bucket & ((1u << HISTOGRAM_BITS) - 1);

	if (shift == 0)
		return first;
	shift--;
	first = (first + (1u << HISTOGRAM_BITS)) << shift;
	return first + ((UINT64_C(1) << shift) >> 1);
}

void histogram_add(struct histogram *h, uint64_t value)
{
	h->count++;
	h->sum += value;
	if (value > h->max)
		h->max = value;
	h->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
	unsigned i;

	into->count += from->count;
	into->sum += from->sum;
	if (from->max > into->max)
		into->max = from->max;
	for (i = 0; i < HISTOGRAM_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

double histogram_mean(const struct histogram *h)
{
	return h->count ? (double)h->sum / (double)h->count : 0;
}

uint64_t histogram_quantile(const struct histogram *h, double fraction)
{
	double want = fraction * (double)h->count;
	uint64_t below = 0, middle;
	unsigned i;

	if (!h->count)
		return 0;
	for (i = 0; i < HISTOGRAM_BUCKETS; i++) {
		below += h->buckets[i];
		if (below && (double)below >= want) {
			middle = middle_of(i);
			return middle < h->max ? middle : h->max;
		}
	}
	return h->max;
}
