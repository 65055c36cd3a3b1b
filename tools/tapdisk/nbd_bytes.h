/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as NBD sends them: big-endian, unaligned.  Header only. */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t nbd_bytes_get16(const uint8_t *at)
{
	uint16_t v;

	memcpy(&v, at, sizeof(v));
	return be16toh(v);
}

static inline uint32_t nbd_bytes_get32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return be32toh(v);
}

static inline uint64_t nbd_bytes_get64(const uint8_t *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return be64toh(v);
}

/* Each returns the place behind what it wrote. */

static inline uint8_t *nbd_bytes_put16(uint8_t *at, uint16_t v)
{
	v = htobe16(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

static inline uint8_t *nbd_bytes_put32(uint8_t *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

static inline uint8_t *nbd_bytes_put64(uint8_t *at, uint64_t v)
{
	v = htobe64(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}
