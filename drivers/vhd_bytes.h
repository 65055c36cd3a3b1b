/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Big-endian numbers at any address, as VHD keeps them.  Knows nothing of
 * what they mean.
 */
#pragma once

#include <stdint.h>

static inline uint16_t vhd_bytes_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t vhd_bytes_get32(const uint8_t *p)
{
	return (uint32_t)vhd_bytes_get16(p) << 16 | vhd_bytes_get16(p + 2);
}

static inline uint64_t vhd_bytes_get64(const uint8_t *p)
{
	return (uint64_t)vhd_bytes_get32(p) << 32 | vhd_bytes_get32(p + 4);
}

static inline void vhd_bytes_put16(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void vhd_bytes_put32(uint8_t *p, uint32_t value)
{
	vhd_bytes_put16(p, (uint16_t)(value >> 16));
	vhd_bytes_put16(p + 2, (uint16_t)value);
}

static inline void vhd_bytes_put64(uint8_t *p, uint64_t value)
{
	vhd_bytes_put32(p, (uint32_t)(value >> 32));
	vhd_bytes_put32(p + 4, (uint32_t)value);
}
