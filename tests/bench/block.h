/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block device as the SQLite VFS sees it: whole 512-byte sectors, and a
 * flush.  A sector is written whole or not at all; what a flush that returned
 * 0 has not covered may be lost, or not, sector by sector.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BLOCK_SECTOR 512u

struct block;

/* Offsets and lengths are multiples of BLOCK_SECTOR.  0 or -errno. */
struct block_ops {
	int (*read)(struct block *block, uint64_t offset, void *data,
		    size_t len);
	int (*write)(struct block *block, uint64_t offset, const void *data,
		     size_t len);
	/* Every write that returned before is durable. */
	int (*flush)(struct block *block);
};

struct block {
	const struct block_ops *ops;
	uint64_t bytes;
	uint32_t physical; /* bytes that a torn write may spoil; >= a sector */
};
