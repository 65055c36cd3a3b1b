/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters with one writer and any number of readers: no lock prefix, and
 * never half a value on any machine.
 */
#pragma once

#include <stdint.h>

static inline void counter_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline uint64_t counter_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}
