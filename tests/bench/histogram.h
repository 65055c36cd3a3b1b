/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A latency histogram of fixed size: 64 buckets for each power of two, so a
 * quantile is never off by more than 1/64, whatever the unit.  Pure.
 */
#pragma once

#include <stdint.h>

#define HISTOGRAM_BITS 6 /* 64 buckets an octave */
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

/* Zeroed is empty. */
struct histogram {
	uint64_t count;
	uint64_t sum; /* of the values themselves: the mean is exact */
	uint64_t max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* 0 of an empty one. */
double histogram_mean(const struct histogram *h);

/*
 * The smallest bucket's middle that at least @fraction (0 to 1) of the values
 * do not exceed; never more than the largest value.  0 of an empty one.
 */
uint64_t histogram_quantile(const struct histogram *h, double fraction);
