/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file in a fixed region of a block device: a header that says how long it
 * is, then its bytes.  Bytes go in and out; whole sectors reach the device.
 *
 * Writes gather in one window of a request's size, as in a guest's page cache,
 * until something does not fit or region_sync.  The header has two places,
 * written in turn and never both between two flushes, so that a torn one costs
 * nothing; length and data are handed over before the one flush of region_sync.
 * After a power cut the file has the length of the last sync or a later one,
 * and what was written since may be there or not, sector by sector: what SQLite
 * expects of a file.
 *
 * Knows nothing of SQLite.  Never logs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "tests/bench/block.h"

#define REGION_WINDOW (44u * 1024)
#define REGION_DATA 8192u /* the header's two places: 0 and 4096 */

struct region {
	struct block *block;
	uint64_t start, bytes; /* on the device */
	/* what the header says, or will with the next sync */
	bool exists;
	uint64_t length;
	uint64_t sequence; /* of the newest header written */
	bool header_dirty; /* not written */
	bool header_loose; /* written, and not flushed since */
	/*
	 * window[0, valid) is the file from @base on, as written or known; of
	 * it [dirty_from, dirty_to) is not on the device yet.  base and the
	 * dirty bounds are whole sectors, but for dirty_to, which may be valid.
	 */
	uint64_t base;
	uint32_t valid, dirty_from, dirty_to;
	uint8_t window[REGION_WINDOW];
};

/* Read the header.  A region never used holds no file.  0 or -errno. */
int region_open(struct region *r, struct block *block, uint64_t start,
		uint64_t bytes);

/* An empty file if there is none.  Lasting from the next sync on.  0, -errno.
 */
int region_create(struct region *r);

/* No file any more; durable if @sync. */
int region_remove(struct region *r, bool sync);

/* Bytes read: fewer than @len at the end of the file; or -errno. */
int64_t region_read(struct region *r, uint64_t offset, void *data, size_t len);

/* Zeros appear between the end and @offset.  0, -ENOSPC, -errno. */
int region_write(struct region *r, uint64_t offset, const void *data,
		 size_t len);

/* Shorter only; a longer @length changes nothing. */
int region_truncate(struct region *r, uint64_t length);

int region_sync(struct region *r);

/* Hand over everything, durable or not. */
int region_write_out(struct region *r);
